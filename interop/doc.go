// Package interop runs real Linux in a small virtual machine. Tests compare
// this project with the kernel's own NFS client and server over siw, the
// kernel's software iWARP. They also check mountrdma's mounts against the
// requirements that Linux and its programs have on a file system.
//
// guest/build makes the guest from Debian's packages and keeps it. Boot starts
// it under qemu without hardware virtualization, and without privileges. The
// guest reaches the host's loopback at two addresses, each through a separate
// network device (and siw device), so that two mounts can have two connections
// to one server. The host reaches the guest through forwarded ports:
//
//	host                                 guest (Linux 6.1)
//	127.0.0.1:p ◀── slirp ── 10.0.2.2 ── eth0, siw0 ── mount.nfs -o rdma
//	            ◀── slirp ── 10.0.3.2 ── eth1, siw1 ── mount.nfs -o rdma
//	Exec, Push  ──────────▶ 10.0.2.15 ── guest-agent
//	Addr(20049) ──────────▶ 10.0.2.15 ── knfsd
//
// The guest's third network device, with rxe, the kernel's software RoCE, is on an
// Ethernet with the test's network namespace. On this Ethernet addresses are not
// translated, every port is free, and multicast groups reach both sides. mountrdma plays
// pingpong on it with rdma-core's programs, whose packets have a checksum over the
// addresses.
//
//	namespace: 10.0.4.2 ── TAP ── eth2, rxe2 10.0.4.15 :guest
//
// Inside the guest, interop/guestwork does the work on a mounted directory: package
// workload with exact checks, posix, which records the behaviour of a file system, model,
// which does random operations, may, which tries a user's rights, locking, which locks
// bytes, transact, which makes transactions in a database, and holes, which makes holes
// and copies. On the host's mounts the same program runs in a process that can be killed
// if a mount hangs. Package workload, called by the test, checks the directory that the
// server serves.
//
//	may       Linux's mount as a user ═ a local directory as the corresponding user
//	posix     tmpfs of the host ═ mountrdma's mounts ═ Linux's mount, except for a list
//	model     mountrdma ─┐
//	          mountrdma ─┼─▶ one directory of nfsrdmad, compared with a tree in memory
//	          Linux ─────┘
//
// The same tests run on mounts that cache by delegation counters, with several
// programs at the same time, and while mounts lose their connections or are
// stopped: a program that opens a file after a change must see the change.
//
// Mount tests run in a mount namespace, which ends with the process.
//
// Beside the guest, go-nfs-client uses the server in a network namespace, with
// nfsrdmad or the bridge as the portmapper. In such a namespace, rpcinfo and
// showmount also query nfsrdmad, or the rpcbind that nfsrdmad is registered
// with.
//
// In tests that vary both ends' settings, a relay counts the connections, none
// of which may be lost, and changes the announcements of remote invalidation.
//
// interop/gonfs is go-nfs's server behind a stream.Listener, which
// Linux mounts too; its own tests need neither guest nor root. Those of
// interop/kerberos, a KDC and MIT's library, do not either, nor that of interop/live, a
// browser at the live page and Prometheus at the metrics.
//
// tshark checks messages from the guest and from two of our own ends.
//
// The package must not know the protocol: it starts programs and examines files, exit
// statuses and captures. It imports no other package of the floors, except, in tests, the
// two ends that tshark observes and the requester over NFSv4, and no package imports it.
// Its tests have the build tag interop and need root (they capture packets, serve files
// with several owners and create network namespaces):
//
//	go test -tags interop ./interop/
//
// INTEROP_SOAK (a Go duration) sets the time for the soak, the bad network and the random
// operations, half a minute or less by default. It also sets 50 server kills in place of
// three, 10,000 transactions of each program with 20 kills, a directory with a million
// entries, 200 schedules of mounts with delegations, the whole workload over NFSv4 and
// over TCP, more file systems, with a 10 GiB file, the cases in many tests that combine
// what their other cases show, and a guest with two processors in place of one.
// INTEROP_VERS, 4.1 or 4.2, is the NFS version with which Linux mounts nfsrdmad in the
// tests that do not need a certain one; without it, that is 3. INTEROP_KERNEL, 6.1,
// 6.1-oldest or 6.12, is the guest's Linux version; without it, that is 6.1. INTEROP_SEED
// repeats the random operations of an earlier run. INTEROP_TRANSCRIPTS names a directory
// for posix and model results. INTEROP_COUNTED requests a guest with one processor whose
// clock counts instructions, for measurements, and INTEROP_PACE=names measures only
// names.
package interop
