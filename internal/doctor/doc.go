// Package doctor looks for what keeps programs of NFS on RDMA from working on a host, and
// says how to mend it.
//
//	finding.go            what a check found, and its remedy
//	host.go               a host on which nfsrdmad is to serve
//	files.go, space.go    its exports, and their space, capabilities
//	filesystem.go         whether handles and leases hold there
//	host_ports.go         its ports, Linux's server               holders.go  processes with ports
//	mtu.go                its interfaces
//	client.go             a host that is to mount        ask.go      file systems that may hang
//	port.go               how a port of a server answers          port_words.go  where packets end
//	limits.go             limits of a process, the clock
//
// A check changes nothing, and ends in a bounded time. The package must not know
// protocols above TCP, nor flags of commands.
package doctor
