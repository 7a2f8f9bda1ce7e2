"""Small traces of every format, written by hand after the formats' documentation, and the real ones where they are."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("GPUIO_SHARED_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))

#: Each format's text, and what it holds: records, span in seconds, and two totals (input and output tokens, or bytes
#: read and written), counted by hand.
SAMPLES = {
    "mooncake": (
        '{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}\n'
        '{"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}\n'
        '{"timestamp": 4500, "input_length": 1, "output_length": 9, "hash_ids": [3], "new_key": {"a": [1]}}\n',
        (3, 4.5, 1725, 21),
    ),
    "bailian": (
        '{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 20, "output_length": 3, '
        '"type": "text", "turn": 1, "hash_ids": [10, 11]}\n'
        '{"chat_id": 160, "parent_chat_id": 159, "timestamp": 61.614, "input_length": 33, "output_length": 4, '
        '"type": "text", "turn": 2, "hash_ids": [10, 12, 13]}\n',
        (2, 0.5, 53, 7),
    ),
    "azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 23:59:59.9000000,4808,10\r\n"
        "2023-11-17 00:00:00.4000001,110,27\r\n",
        (2, 0.5000001, 4918, 37),
    ),
    "burstgpt": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,230,1317,Conversation log\n"
        "118,GPT-4,417,0,417,API log\n",
        (3, 113.0, 1976, 248),
    ),
    "mlperf-kv": (
        "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"
        "1740553426.194021,Write,131072,Tier-0,layer0/user0,Prefill\n"
        "1740553426.194308,Read,131072,Tier-0,layer0/user0,Decode\n"
        "1740553426.194521,Write,262144,Tier-2,layer0/user1,Evict\n"
        "1740553427.194590,Read,262144,Tier-2,layer0/user1,Decode\n",
        (4, 1.000569, 393216, 393216),
    ),
    "iolog": (
        "fio version 3 iolog\n"
        "1 /t/f0 add\n2 /t/f0 open\n"
        "10 /t/f0 write 0 4096\n1500010 /t/f0 read 8192 512\n1500011 /t/f0 sync 0 0\n1500012 /t/f0 close\n",
        (3, 1.500001, 512, 4096),
    ),
    "blkparse": (
        "  8,16   1        1     0.000000000  4719  Q   R 2048 + 8 [dd]\n"
        "  8,16   1        2     0.000001122  4719  G   R 2048 + 8 [dd]\n"
        "  8,16   1        3     0.000003000  4719  D   R 2048 + 8 [dd]\n"
        "  8,16   1        4     0.000104000     0  C   R 2048 + 8 [0]\n"
        "  8,16   1        0     0.000105000     0  m   N cfq4719 dispatch\n"
        "  8,16   0        5     1.000003000   331  D  WS 4096 + 16 [kworker/0:1 H]\n"
        "  8,16   0        6     1.000103000   331  D  FN [kworker/0:1 H]\n"
        "CPU0 (sdb):\n Reads Queued:           1,        4KiB\n",
        (3, 1.0001, 4096, 8192),
    ),
    "bpftrace": (
        "Attaching 1 probe...\n"
        "45502109053447, W, 4096, 170104688, 8\n"
        "45502109071121, R, 131072, 170104864, 256\n"
        "45503109053447, FF, 0, 0, 0\n",
        (3, 1.0, 131072, 4096),
    ),
    "msr": (
        "128166372003061629,hm,1,Read,383496192,32768,413\n"
        "128166372013061629,hm,1,Write,2822144,4096,1285\n"
        "128166372023061639,wdev,0,Read,512,1024,9\n",
        (3, 2.000001, 33792, 4096),
    ),
    "burstgpt with sessions": (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "19440110.5,12,3.5,GPT-4,100,10,110,Conversation log\n"
        "19440111.75,12,2.0,GPT-4,210.0,20,230,Conversation log\n",
        (2, 1.25, 310, 30),
    ),
    "iolog v2": (
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 250 0\nf write 4096 8192\nf close\n",
        (2, 0.25, 4096, 8192),
    ),
}


@pytest.fixture(scope="session")
def samples():
    """Text and (records, span, totals) by format."""
    return SAMPLES


@pytest.fixture
def shared():
    """Function: a real trace's path, or a skip."""

    def find(name):
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        return path

    return find


@pytest.fixture
def trace_file(tmp_path):
    """Function: a file with this text or these bytes."""

    def write(content, name="trace.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
