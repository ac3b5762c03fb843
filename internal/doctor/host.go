package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A Host is a host for nfsrdmad, whether running or not. NewHost sets the unexported fields,
// which tests replace.
type Host struct {
	Exports     func() (*exports.File, error) // parses the exports file
	ExportsFile string                        // name of the exports file
	State       string                        // state directory
	Listen, TCP string                        // the daemon's addresses; TCP may be ""

	// Daemon reports whether a daemon responds, and its process ID, or 0 if unknown.
	Daemon func() (pid int, running bool)

	// FilesFor returns the daemon's maximum number of connections, and how many open files
	// they need.
	FilesFor func() (connections int, files uint64)

	portlist     string // file that lists the ports of Linux's NFS server
	modules      string // directory of loaded kernel modules
	status       string // file with this process's capabilities
	rpcbind      string // address
	limit        func() (files uint64, err error)
	clock        func() (state int, err error)
	probeTimeout time.Duration // for each file system
}

// NewHost returns the Host for this host.
func NewHost() *Host {
	return &Host{
		portlist: "/proc/fs/nfsd/portlist", modules: "/sys/module", status: "/proc/self/status", rpcbind: "127.0.0.1:111",
		limit: OpenFiles, clock: clockState, probeTimeout: defaultProbeTimeout,
	}
}

// Examine runs all checks, as the user of this process.
func (h *Host) Examine(ctx context.Context) (list []Finding) {
	list = append(list, h.checkExports(ctx)...)
	list = append(list, h.checkPort("--listen", h.Listen))
	if h.TCP != "" {
		list = append(list, h.checkPort("--tcp", h.TCP))
	}
	return append(list, h.checkKnfsd(), h.checkRpcbind(ctx), checkMTU(), h.checkCapabilities(), h.checkOpenFiles(), checkClock(h.clock), h.checkState(ctx))
}

// checkRpcbind checks how version 3 clients can find the ports.
func (h *Host) checkRpcbind(ctx context.Context) Finding {
	dialer := net.Dialer{Timeout: time.Second}
	c, err := dialer.DialContext(ctx, "tcp", h.rpcbind)
	if err != nil {
		return Finding{"rpcbind", Warn, "no rpcbind responds on this host", "for version 3 without port=: --portmap :111, or install rpcbind and use --register"}
	}
	c.Close()
	return Finding{"rpcbind", OK, "rpcbind responds: --register, or register = auto in nfsrdmad.conf, registers the ports for version 3 clients", ""}
}

// checkOpenFiles checks a running daemon's open files against its limit, or else the limit of
// this process.
func (h *Host) checkOpenFiles() Finding {
	conns, enough := h.FilesFor()
	why := fmt.Sprintf("%d connections need one each, and half of all are reserved for the exports' files", conns)
	pid, running := h.Daemon()
	if !running || pid == 0 {
		return checkFileLimit(h.limit, enough, why)
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
		return checkFileLimit(h.limit, enough, why)
	case n >= r.Cur:
		return Finding{"files", Fail, fmt.Sprintf("the daemon has %d files open of at most %d: it accepts no further connections", n, r.Cur), more}
	case n >= r.Cur-r.Cur/10:
		return Finding{"files", Warn, fmt.Sprintf("the daemon has %d files open of at most %d: soon it accepts no further connections", n, r.Cur), more}
	case r.Cur < enough:
		return checkFileLimit(func() (uint64, error) { return r.Cur, nil }, enough, why)
	}
	return Finding{"files", OK, fmt.Sprintf("the daemon has %d files open of at most %d", n, r.Cur), ""}
}
