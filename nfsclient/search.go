package nfsclient

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A MountSearch finds the address at which a server answers MOUNT version 3. It
// tries these connections in order, and uses the first that serves the program:
//
//	NFS                 the connection of the NFS calls itself
//	Host:111 ─▶ Host:N  over TCP, port from the server's rpcbind
//	Host:20048          over TCP, mountd's customary port
type MountSearch struct {
	// NFS is the connection that carries the NFS calls, and NFSAddr its name in
	// errors. If NFS is nil, the search starts with rpcbind.
	NFS     oncrpc.Caller
	NFSAddr string

	// Host is the server's name or address.
	Host string

	// Dial connects to host and port over TCP; nil means oncrpc.DialTCP.
	Dial func(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error)

	// DialMOUNT connects only to MOUNT, on any port that rpcbind returns; nil
	// means Dial, or if that is nil too, oncrpc.DialReserved.
	DialMOUNT func(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error)

	// MountHost is the host that serves MOUNT, if not Host. If it is set, NFS
	// is not tried.
	MountHost string

	// MountPort, if not 0, is MOUNT's TCP port, and nothing else is tried.
	MountPort int

	// Cred is the credential for the Mount's calls; nil means ProcessCred.
	Cred *rpcmsg.Cred

	// stepTime, if not 0, replaces searchStep in tests.
	stepTime time.Duration
}

// mountdPort is mountd's customary port.
const mountdPort = 20048

// Find searches for MOUNT. The error is a SearchError, or ctx's cause.
func (s *MountSearch) Find(ctx context.Context) (*Mount, error) {
	h := mountSearch{MountSearch: s, searchErr: &SearchError{Host: s.mountHost()}}
	var m *Mount
	switch {
	case s.MountPort != 0:
		m = h.findOverTCP(ctx, s.MountPort)
		h.searchErr.Fixed = true
	case s.NFS != nil && s.MountHost == "":
		if m = h.findOverNFS(ctx); m == nil {
			m = h.findByPort(ctx)
		}
	default:
		m = h.findByPort(ctx)
	}
	switch {
	case m != nil:
		return m, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, h.searchErr
}

func (s *MountSearch) mountHost() string {
	if s.MountHost != "" {
		return s.MountHost
	}
	return s.Host
}

// A mountSearch is the state of one search for the MOUNT port.
type mountSearch struct {
	*MountSearch
	searchErr *SearchError
}

// tryStep runs try with the time limit for one step, records its error, and
// reports success.
func (h *mountSearch) tryStep(ctx context.Context, at string, try func(ctx context.Context) error) bool {
	if ctx.Err() != nil {
		return false
	}
	limit := h.stepTime
	if limit == 0 {
		limit = searchStep
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	err := try(ctx)
	if err != nil {
		h.searchErr.Steps = append(h.searchErr.Steps, SearchStep{At: at, Err: err})
	}
	return err == nil
}

func (h *mountSearch) dialHost(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	if h.Dial != nil {
		return h.Dial(ctx, addr)
	}
	c, err := oncrpc.DialTCP(ctx, addr, oncrpc.ClientConfig{})
	return c, c, err
}

// dialMOUNT connects to MOUNT, from a reserved port unless DialMOUNT or Dial is
// set: mountd denies MNT for secure exports, the default, to other ports.
func (h *mountSearch) dialMOUNT(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	switch {
	case h.DialMOUNT != nil:
		return h.DialMOUNT(ctx, addr)
	case h.Dial != nil:
		return h.Dial(ctx, addr)
	}
	nc, err := oncrpc.DialReserved(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	return c, c, nil
}

func (h *mountSearch) findOverNFS(ctx context.Context) *Mount {
	m := NewMount(h.NFS, h.Cred)
	m.at = h.NFSAddr
	if !h.tryStep(ctx, m.at, m.Null) {
		return nil
	}
	return m
}

// findByPort tries the port that rpcbind returns, then mountdPort.
func (h *mountSearch) findByPort(ctx context.Context) *Mount {
	port := h.queryRPCBind(ctx)
	if port != 0 {
		if m := h.findOverTCP(ctx, port); m != nil {
			return m
		}
	}
	if port == mountdPort {
		return nil
	}
	return h.findOverTCP(ctx, mountdPort)
}

func (h *mountSearch) queryRPCBind(ctx context.Context) (port int) {
	addr := h.portAddr(rpcbind.Port)
	h.tryStep(ctx, "rpcbind at "+addr, func(ctx context.Context) error {
		caller, conn, err := h.dialHost(ctx, addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		n, err := rpcbind.GetPort(ctx, caller, mount3.Program, mount3.Version, rpcbind.TCP)
		port = int(n)
		return err
	})
	return port
}

func (h *mountSearch) findOverTCP(ctx context.Context, port int) (m *Mount) {
	addr := h.portAddr(port)
	h.tryStep(ctx, "TCP "+addr, func(ctx context.Context) error {
		caller, conn, err := h.dialMOUNT(ctx, addr)
		if err != nil {
			return err
		}
		found := NewMount(caller, h.Cred)
		found.at, found.conn = "TCP "+addr, conn
		if err := found.Null(ctx); err != nil {
			_ = conn.Close()
			return err
		}
		m = found
		return nil
	})
	return m
}

func (h *mountSearch) portAddr(port int) string {
	return net.JoinHostPort(h.mountHost(), strconv.Itoa(port))
}

// A SearchError lists the addresses that do not serve MOUNT.
type SearchError struct {
	Host  string
	Steps []SearchStep
	Fixed bool // the port was given, and nothing else was tried
}

// A SearchStep is an address that does not serve MOUNT, and the reason.
type SearchStep struct {
	At  string
	Err error
}

// Error returns all steps, and a remedy.
func (e *SearchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no MOUNT service found on %s (", e.Host)
	for i, s := range e.Steps {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %v", s.At, s.Err)
	}
	b.WriteString("): ")
	if e.Fixed {
		b.WriteString("start mountd there, or correct mountport and mounthost")
	} else {
		b.WriteString("start rpcbind and mountd there, open their ports to this host, or name the port with mountport=N")
	}
	return b.String()
}

// Unwrap returns the errors of the steps.
func (e *SearchError) Unwrap() []error {
	var errs []error
	for _, s := range e.Steps {
		errs = append(errs, s.Err)
	}
	return errs
}
