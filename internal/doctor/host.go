package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A Host is where nfsrdmad is to serve, or does. NewHost fills in the fields that tests
// replace.
type Host struct {
	Exports     func() (*exports.File, error) // reads the file
	ExportsFile string                        // its name
	Listen, TCP string                        // addresses of the daemon; TCP may be ""
	Running     func() bool                   // does a daemon answer?

	// FilesFor returns how many connections the daemon may have, and how many open files
	// that takes.
	FilesFor func() (connections int, files uint64)

	portlist string // file of the kernel's server
	status   string // file with this process's capabilities
	rpcbind  string // address
	limit    func() (files uint64, err error)
	clock    func() (state int, err error)
}

// NewHost returns this host.
func NewHost() *Host {
	return &Host{
		portlist: "/proc/fs/nfsd/portlist", status: "/proc/self/status", rpcbind: "127.0.0.1:111",
		limit: openFiles, clock: clock,
	}
}

// Examine makes all checks, as the user of this process.
func (h *Host) Examine(ctx context.Context) (list []Finding) {
	list = append(list, h.files()...)
	list = append(list, h.port("--listen", h.Listen))
	if h.TCP != "" {
		list = append(list, h.port("--tcp", h.TCP))
	}
	return append(list, h.portmapper(ctx), h.capabilities(), h.openFiles(), clockOf(h.clock))
}

// port sees whether the daemon can listen, or does.
func (h *Host) port(flag, addr string) Finding {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		l.Close()
		return Finding{"port", OK, addr + " is free for " + flag, ""}
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "see ip address"}
	}
	_, number, _ := net.SplitHostPort(addr)
	if kernelHas(h.portlist, number) { // a daemon that runs has others
		return Finding{"port", Fail, "Linux's NFS server has port " + number, "systemctl disable --now nfs-server, or another port with " + flag}
	}
	if h.Running() {
		return Finding{"port", OK, "a daemon is running, and " + addr + " is in use", ""}
	}
	return Finding{"port", Fail, cli.ListenError(flag, addr, err, "").Error(), "see who has it: ss -ltnp"}
}

// portmapper says how clients of version 3 can find the ports.
func (h *Host) portmapper(ctx context.Context) Finding {
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(ctx, "tcp", h.rpcbind)
	if err != nil {
		return Finding{"rpcbind", Warn, "no rpcbind answers on this host", "for version 3 without port=: --portmap :111, or install rpcbind and use --register"}
	}
	c.Close()
	return Finding{"rpcbind", OK, "rpcbind answers: --register makes the ports known to clients of version 3", ""}
}

// openFiles judges the limit of open files of this process.
func (h *Host) openFiles() Finding {
	conns, enough := h.FilesFor()
	return limitOf(h.limit, enough, fmt.Sprintf("%d connections take one each, and half of all are for the exports' files", conns))
}

// kernelHas reports whether Linux's server listens on a port.
func kernelHas(portlist, number string) bool {
	text, err := os.ReadFile(portlist)
	return err == nil && listed(string(text), number)
}
