# Two network namespaces stand for hosts: each with a name, clocks, a boot id, a folder for locks and an address of its own.
# Started in a new network and mount namespace: hosts.sh FOLDER MPIRUN ARGUMENTS...
PATH=$PATH:/usr/sbin:/sbin
set -e
folder=$1
shift
mount --make-rprivate /
mkdir -p /run/netns
mount -t tmpfs none /run/netns
mount -t tmpfs none /run/lock
ip link add bridge0 type bridge
ip addr add 10.77.0.1/24 dev bridge0
ip link set bridge0 up
ip link set lo up
for n in 2 3; do
	ip netns add host$n
	ip link add port$n type veth peer name eth0 netns host$n
	ip link set port$n master bridge0 up
	ip -n host$n addr add 10.77.0.$n/24 dev eth0
	ip -n host$n link set eth0 up
	ip -n host$n link set lo up
done
# Takes ssh's place: the host, then a command.
cat >"$folder/agent" <<'AGENT'
#!/bin/sh
n=${1##*.}
shift
exec ip netns exec host$n unshare --uts --mount --time --monotonic $((n * 1000)) --fork sh -c "
echo node$n >/proc/sys/kernel/hostname
mount -t tmpfs none /run/lock
echo 00000000-0000-0000-0000-00000000000$n >/run/lock/boot
mount --bind /run/lock/boot /proc/sys/kernel/random/boot_id
$*"
AGENT
chmod +x "$folder/agent"
mpirun=$1
shift
exec "$mpirun" --prtemca plm_ssh_agent "$folder/agent" --prtemca prte_if_include 10.77.0.0/24 --mca btl self,tcp \
	--mca btl_tcp_if_include 10.77.0.0/24 --host 10.77.0.1:1,10.77.0.2:1,10.77.0.3:1 --bind-to none --with-ft ulfm -n 3 "$@"
