// Package interop runs real Linux in a small virtual machine, so that tests can
// hold this project against the kernel's own NFS client and server over siw,
// the kernel's software iWARP; and it holds mountrdma's mounts against what Linux
// and its programs ask of a file system.
//
// guest/build makes the guest from Debian's packages and keeps it. Boot starts
// it under qemu without hardware virtualization; no privilege is needed for
// that. The guest reaches the host's loopback at two addresses, each through a
// network device (and siw device) of its own, so that two mounts can have two
// connections to one server; the host reaches the guest through forwarded ports:
//
//	host                                 guest (Linux 6.1)
//	127.0.0.1:p ◀── slirp ── 10.0.2.2 ── eth0, siw0 ── mount.nfs -o rdma
//	            ◀── slirp ── 10.0.3.2 ── eth1, siw1 ── mount.nfs -o rdma
//	Exec, Push  ──────────▶ 10.0.2.15 ── guest-agent
//	Addr(20049) ──────────▶ 10.0.2.15 ── knfsd
//
// A third network device of the guest, with rxe, the kernel's software RoCE, is on an
// Ethernet with a network namespace of the test, where no address is translated, every
// port is free, and groups reach both: mountrdma plays pingpong there with rdma-core's
// programs, whose packets have a checksum over the addresses.
//
//	namespace: 10.0.4.2 ── TAP ── eth2, rxe2 10.0.4.15 :guest
//
// Inside the guest, interop/guestwork does the work on a mounted directory:
// package workload with exact checks, posix, which writes down how a file system
// behaves, model, which does random operations, and may, which tries what a user may
// do. On mounts of the host it is the same program, in a process that can be killed
// where a mount hangs. Package workload, called by the test, looks at the directory
// that the server serves.
//
//	may       Linux's mount as a user ═ a local directory as whom that user is there
//	posix     tmpfs of the host ═ mountrdma's mounts ═ Linux's mount, except for a list
//	model     mountrdma ─┐
//	          mountrdma ─┼─▶ one directory of nfsrdmad: what memory says it must be
//	          Linux ─────┘
//
// The same is done where mounts cache by delegation counters, by several programs at
// the same time, and while mounts lose their connections or are stopped: what a change
// has left is what is seen by who opens the file after it.
//
// Tests of mounts run in a mount namespace, which goes with the process.
//
// Beside the guest, go-nfs-client uses the server in a network namespace, where
// nfsrdmad answers as the portmapper, or the bridge does. There, too, rpcinfo and
// showmount ask nfsrdmad, or rpcbind where it is registered.
//
// Where both ends' settings change, a relay counts their connections, of which none
// may be lost, and changes what they say about remote invalidation.
//
// interop/gonfs is the server of go-nfs behind a rpcrdma.StreamListener, which Linux
// mounts too; its own tests need neither guest nor root.
//
// tshark judges what the guest and what two ends of our own say on the wire.
//
// The package must not know the protocol: it starts programs and looks at files,
// exit statuses and captures. It imports nothing of the floors but, in tests, the
// two ends that tshark listens to, and nothing imports it. Its tests have the build
// tag interop and need root (they capture packets, serve files of several owners
// and make network namespaces):
//
//	go test -tags interop ./interop/
//
// INTEROP_SOAK (a Go duration) sets the time of the soak and of the bad network, 60s
// by default, and of the random operations, 2m by default, and has the server killed 50
// times in place of three, a directory with a million entries, and 200 schedules of
// mounts with delegations; INTEROP_SEED repeats the random operations of an earlier run.
// INTEROP_TRANSCRIPTS names a directory for what posix and model have seen. INTEROP_COUNTED
// asks for a guest of one processor whose clock counts instructions, to measure.
package interop
