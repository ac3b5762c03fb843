// Package interop runs real Linux in a small virtual machine. Tests compare
// this project with the kernel's own NFS client and server over siw, the
// kernel's software iWARP. They also check mountrdma's mounts against the
// requirements of Linux and its programs on a file system.
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
// A third network device of the guest, with rxe, the kernel's software RoCE, is
// on an Ethernet with a network namespace of the test. On this Ethernet
// addresses are not translated, every port is free, and multicast groups reach
// both sides. mountrdma plays pingpong on it with rdma-core's programs, whose
// packets have a checksum over the addresses.
//
//	namespace: 10.0.4.2 ── TAP ── eth2, rxe2 10.0.4.15 :guest
//
// Inside the guest, interop/guestwork does the work on a mounted directory:
// package workload with exact checks, posix, which records the behaviour of a
// file system, model, which does random operations, may, which tries a user's
// rights, locking, which locks bytes, transact, which makes transactions in a
// database, and holes, which makes holes and copies. On mounts of the host the same program runs in a process that can be
// killed if a mount hangs. Package workload, called by the test, checks the
// directory that the server serves.
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
// Tests of mounts run in a mount namespace, which ends with the process.
//
// Beside the guest, go-nfs-client uses the server in a network namespace, with
// nfsrdmad or the bridge as the portmapper. In such a namespace, rpcinfo and
// showmount also query nfsrdmad, or the rpcbind that nfsrdmad is registered
// with.
//
// In tests that vary both ends' settings, a relay counts the connections, none
// of which may be lost, and changes the announcements of remote invalidation.
//
// interop/gonfs is the server of go-nfs behind a stream.Listener, which
// Linux mounts too; its own tests need neither guest nor root. Those of
// interop/kerberos, a KDC and MIT's library, do not either, nor that of interop/live, a
// browser at the live page and Prometheus at the metrics.
//
// tshark checks the messages of the guest and of two ends of our own.
//
// The package must not know the protocol: it starts programs and examines
// files, exit statuses and captures. It imports no other package of the floors,
// except, in tests, the two ends that tshark observes and the requester of
// version 4, and no package imports it. Its tests have the build tag interop and need root (they capture packets,
// serve files of several owners and make network namespaces):
//
//	go test -tags interop ./interop/
//
// INTEROP_SOAK (a Go duration) sets the time of the soak, of the bad network and of
// the random operations, half a minute or less by default. It also
// sets 50 kills of the server in place of three, 10,000 transactions of each
// program with 20 kills, a directory with a million entries, 200 schedules of
// mounts with delegations, the whole workload by version 4 and over TCP, more file
// systems, with a file of 10 GiB, the cases of many tests that combine what their other
// cases show, and a guest with two processors in place of one. INTEROP_VERS, 4.1 or 4.2, is the version of NFS by which Linux
// mounts nfsrdmad in the tests that do not need a certain one; without it, that
// is 3. INTEROP_KERNEL, 6.1 or 6.12, is the version of the guest's Linux;
// without it, that is 6.1. INTEROP_SEED repeats the random operations of an
// earlier run. INTEROP_TRANSCRIPTS names a directory for the results of posix
// and model. INTEROP_COUNTED asks for a guest of one processor whose clock
// counts instructions, for measurements, and INTEROP_PACE=names measures names alone.
package interop
