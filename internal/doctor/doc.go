// Package doctor checks a host for problems with NFS over RDMA, and reports remedies.
//
//	finding.go            the result of a check, and its remedy
//	host.go               a host that runs nfsrdmad
//	files.go, space.go    its exports, their disk space, capabilities
//	filesystem.go         their file handles and leases
//	host_ports.go         its ports, Linux's NFS server    holders.go     processes with a port
//	mtu.go                its interfaces
//	client.go             a host that mounts               ask.go         hanging file systems
//	port.go               the state of a server's port     port_words.go  findings about it
//	limits.go             a process's limits, the clock
//	bundle.go             an archive to send             redact.go      secrets in texts
//
// A check changes nothing and ends within a limited time. The package must not contain code
// of protocols above TCP.
package doctor
