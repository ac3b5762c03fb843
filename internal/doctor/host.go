package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
)

// A Host is where nfsrdmad is to serve, or does. NewHost fills in the fields that tests
// replace.
type Host struct {
	Exports     func() (*exports.File, error) // reads the file
	ExportsFile string                        // its name
	State       string                        // its state directory
	Listen, TCP string                        // addresses of the daemon; TCP may be ""

	// Daemon reports whether a daemon answers, and its process: 0 if that is not known.
	Daemon func() (pid int, running bool)

	// FilesFor returns how many connections the daemon may have, and how many open files
	// that takes.
	FilesFor func() (connections int, files uint64)

	portlist string // file of the kernel's server
	modules  string // directory of the kernel's modules
	status   string // file with this process's capabilities
	rpcbind  string // address
	limit    func() (files uint64, err error)
	clock    func() (state int, err error)
	patience time.Duration // with a file system
}

// NewHost returns this host.
func NewHost() *Host {
	return &Host{
		portlist: "/proc/fs/nfsd/portlist", modules: "/sys/module", status: "/proc/self/status", rpcbind: "127.0.0.1:111",
		limit: OpenFiles, clock: clock, patience: patience,
	}
}

// Examine makes all checks, as the user of this process.
func (h *Host) Examine(ctx context.Context) (list []Finding) {
	list = append(list, h.files(ctx)...)
	list = append(list, h.port("--listen", h.Listen))
	if h.TCP != "" {
		list = append(list, h.port("--tcp", h.TCP))
	}
	return append(list, h.knfsd(), h.portmapper(ctx), mtu(), h.capabilities(), h.openFiles(), clockOf(h.clock), h.state(ctx))
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

// openFiles judges the limit of a daemon that runs, by what it has open, or else that of
// this process.
func (h *Host) openFiles() Finding {
	conns, enough := h.FilesFor()
	why := fmt.Sprintf("%d connections take one each, and half of all are for the exports' files", conns)
	pid, running := h.Daemon()
	if !running || pid == 0 {
		return limitOf(h.limit, enough, why)
	}
	var r unix.Rlimit
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &r)
	}
	n := uint64(len(files))
	more := fmt.Sprintf("LimitNOFILE=%d of its unit, or ulimit -Hn before it", max(2*r.Cur, enough))
	switch {
	case err != nil:
		return limitOf(h.limit, enough, why)
	case n >= r.Cur:
		return Finding{"files", Fail, fmt.Sprintf("the daemon has %d files open, and may have %d: it takes no further connections", n, r.Cur), more}
	case n >= r.Cur-r.Cur/10:
		return Finding{"files", Warn, fmt.Sprintf("the daemon has %d files open, and may have %d: soon it takes no further connections", n, r.Cur), more}
	case r.Cur < enough:
		return limitOf(func() (uint64, error) { return r.Cur, nil }, enough, why)
	}
	return Finding{"files", OK, fmt.Sprintf("the daemon has %d files open, and may have %d", n, r.Cur), ""}
}
