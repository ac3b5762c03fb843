package nfsrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

const (
	rdmaPort    = "20049"     // IANA: nfsrdma
	tcpPort     = "2049"      // IANA: nfs
	goodbyeTime = time.Second // for the calls that tell a server of a Close
	maxNamed    = 16          // exports that an error names
)

// ClientConfig configures a Client. The zero value of each field is a usable
// default.
type ClientConfig struct {
	// TCP makes the calls over TCP in place of RDMA. Delegations must be nil then;
	// Inline, Credits, StandardsOnly, IWARP and Dialer have no effect.
	TCP bool

	// Connections is the number of connections to the server, over which
	// calls are spread (as nconnect of nfs(5)); 0 means 1.
	Connections int

	// MountHost and MountPort are the host and the TCP port of the server's
	// MOUNT program. If both are zero, Mount tries the connection of the NFS calls, the
	// port that the server's rpcbind names, and 20048 (nfsclient.MountSearch).
	MountHost string
	MountPort int

	// ClearMOUNT permits with TLS that MOUNT is asked in clear, if the connection of the
	// NFS calls does not serve it: the mountd of Linux has no TLS. Others on the way can
	// then see which export is mounted, and put another of the same server in its place.
	// Sec must be set, because they could change the server's list as well.
	ClearMOUNT bool

	// Sec are the flavours that the calls of an export may have: the first that the
	// export has is taken. Nil means the first in the export's list with which this
	// host can make calls: that of NFS.Cred, or one of Kerberos if Kerberos permits.
	// With flavours of Kerberos, Wrap must return a Caller that makes such calls in a
	// context (package tickets).
	Sec []uint32

	// Kerberos returns nil if the user of NFS.Cred can make calls with Kerberos, and
	// otherwise the reason for that. It is called only if Sec is nil and the export
	// prefers Kerberos. Nil means that nobody can.
	Kerberos func(ctx context.Context) error

	// NFS configures the NFS calls: their credential, sizes and patience.
	NFS nfsclient.Config

	// Inline is the length in bytes of the longest message sent without RDMA
	// (RFC 8797); 0 means 4096.
	Inline int

	// Credits is the number of calls that a connection may have under way; 0
	// means 128.
	Credits int

	// Silence is how long the server may give no sign of life while calls are
	// under way, before its connection is replaced; 0 means 60 s.
	Silence time.Duration

	// GiveUp is how long a call waits for a server that is away, before it
	// fails with oncrpc.ErrUnreachable; 0 means for ever: contexts of calls
	// bound the wait.
	GiveUp time.Duration

	// AnyVersion makes Dial succeed with a server that does not serve NFS
	// version 3. The methods of the Client then fail; Conns are of use.
	AnyVersion bool

	// Delegations, if not nil, holds the delegations of a cache over this
	// Client, such as fusefs. Close closes it. It must not be used by another
	// Client.
	Delegations *delegclient.Set

	// StandardsOnly offers the server nothing of this project's own.
	StandardsOnly bool

	// TLS, if not nil, makes all connections secure: those on RDMA by TLS below MPA,
	// which only servers of this project have, and those on TCP by RPC with TLS (RFC
	// 9289). A connection that cannot be made secure fails.
	TLS *rpctls.Client

	// IWARP configures RDMA connections. LongFPDUs, ShortFPDUs and Secure are
	// set by Dial.
	IWARP iwarp.Config

	// Dialer, if not nil, returns the dialer that makes connections of device,
	// for instance one that names the step that failed. By default device dials.
	Dialer func(device *iwarp.Device) rdma.Dialer

	// Wrap, if not nil, returns the Caller that makes the NFS calls in place of
	// next, for instance an observer that counts them and calls next.
	Wrap func(next oncrpc.Caller) oncrpc.Caller

	// Log receives a message when calls wait for a server that is away; nil
	// means slog.Default().
	Log *slog.Logger
}

// A Client uses one server over RDMA or TCP. A lost connection is replaced, and the
// calls under way are sent again. The methods are safe for concurrent use.
type Client struct {
	cfg   ClientConfig
	addr  string // host and port
	host  string
	lines []*oncrpc.Line
	conns []*rpcrdma.Client // the lines over RDMA
	nfs   *nfsclient.Client

	closed context.Context // ended by Close
	ended  context.CancelFunc

	idle atomic.Bool // CloseMOUNT was called

	turn    chan struct{}      // has an element while a goroutine uses the rest
	mount   *nfsclient.Mount   // nil: not looked for yet
	mounted map[string]bool    // paths to unmount
	asked   bool               // for the exports
	exports []nfsclient.Export // of the last answer, for errors
}

// Dial connects to the server at addr, HOST or HOST:PORT, and checks that it
// serves NFS version 3. The default port is 20049, and 2049 over TCP. ctx bounds the attempt only.
// Dial does not repeat a failed attempt.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	host, port, err := splitAddr(addr, cfg.TCP)
	switch {
	case err != nil:
		return nil, err
	case cfg.TCP && cfg.Delegations != nil:
		return nil, errors.New("nfsrdma: delegations need RDMA")
	case cfg.TLS != nil && cfg.ClearMOUNT && len(cfg.Sec) == 0:
		return nil, errors.New("nfsrdma: with MOUNT in clear, Sec must say how users are known")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NFS.Cred == nil {
		cred := nfsclient.ProcessCred()
		cfg.NFS.Cred = &cred
	}
	c := &Client{cfg: cfg, addr: net.JoinHostPort(host, port), host: host, mounted: make(map[string]bool)}
	c.turn = make(chan struct{}, 1)
	c.closed, c.ended = context.WithCancel(context.Background())
	if err := c.connect(ctx); err != nil {
		c.hangUp(err)
		return nil, fmt.Errorf("nfsrdma: connecting to %s: %w", c.addr, err)
	}
	return c, nil
}

// splitAddr splits HOST or HOST:PORT; an IPv6 address with a port is in
// brackets.
func splitAddr(addr string, tcp bool) (host, port string, err error) {
	if addr == "" {
		return "", "", errors.New("nfsrdma: no server to connect to: write HOST or HOST:PORT")
	}
	if host, port, err = net.SplitHostPort(addr); err == nil {
		return host, port, nil
	}
	host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if net.ParseIP(host) == nil && strings.ContainsAny(host, ":[]") {
		return "", "", fmt.Errorf("nfsrdma: %q is no server: write HOST, HOST:PORT or [IPv6]:PORT", addr)
	}
	if tcp {
		return host, tcpPort, nil
	}
	return host, rdmaPort, nil
}

// connect makes the connections, and a call over the first.
func (c *Client) connect(ctx context.Context) error {
	dial := c.overRDMA()
	if c.cfg.TCP {
		dial = c.overTCP
	}
	callers := make([]oncrpc.Caller, max(c.cfg.Connections, 1))
	for i := range callers {
		line, err := dial(ctx)
		if err != nil {
			return err
		}
		c.lines, callers[i] = append(c.lines, line), line
		if i == 0 { // before a server that is none is asked for more
			err := nfsclient.New(line.Conn(), nfsclient.Config{}).Null(ctx)
			if _, refused := errors.AsType[*oncrpc.ReplyError](err); err != nil && !(refused && c.cfg.AnyVersion) {
				return err
			}
		}
	}
	var caller oncrpc.Caller = c.cfg.Delegations.Caller(callers...)
	if c.cfg.Wrap != nil {
		caller = c.cfg.Wrap(caller)
	}
	c.nfs = nfsclient.New(caller, c.cfg.NFS)
	return nil
}

// NFS returns the client of NFS's procedures, below the file systems of Mount.
func (c *Client) NFS() *nfsclient.Client { return c.nfs }

// Lines returns the connections.
func (c *Client) Lines() []*oncrpc.Line { return slices.Clone(c.lines) }

// Conns returns the connections over RDMA, each with its negotiated values; none over TCP.
func (c *Client) Conns() []*rpcrdma.Client { return slices.Clone(c.conns) }

// Up reports whether the server answers on all connections: calls may wait for
// any of them.
func (c *Client) Up() bool {
	for _, line := range c.lines {
		if !line.Up() {
			return false
		}
	}
	return true
}

// MountSearch returns the parameters of the search for the server's MOUNT
// program, for callers that search themselves.
func (c *Client) MountSearch() nfsclient.MountSearch {
	s := nfsclient.MountSearch{
		NFS: c.lines[0], NFSAddr: "RDMA " + c.addr, Host: c.host,
		MountHost: c.cfg.MountHost, MountPort: c.cfg.MountPort, Cred: c.cfg.NFS.Cred,
	}
	if c.cfg.TCP {
		s.NFSAddr = "TCP " + c.addr
	}
	if c.cfg.TLS != nil && !c.cfg.ClearMOUNT {
		s.DialMOUNT = c.dialMOUNT
	}
	return s
}

// MOUNT returns the client of MOUNT's procedures, below Exports and Mount. It
// is usable until CloseMOUNT or Close.
func (c *Client) MOUNT(ctx context.Context) (*nfsclient.Mount, error) {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	return c.mount, nil
}

// CloseMOUNT closes the connection to the server's MOUNT program, if it is not
// the connection of the NFS calls. File systems do not need it, and servers
// close it when it is idle. The next call that needs MOUNT connects again.
// CloseMOUNT does not wait: if calls use the connection, the last of them
// closes it.
func (c *Client) CloseMOUNT() {
	c.idle.Store(true)
	c.closeIdle()
}

// closeIdle closes the connection to MOUNT if CloseMOUNT has asked for that and
// it is nobody's turn.
func (c *Client) closeIdle() {
	for c.idle.Load() { // again if CloseMOUNT came before the turn ended
		select {
		case c.turn <- struct{}{}:
		default:
			return // the end of that turn calls closeIdle
		}
		if c.idle.Swap(false) && c.mount != nil {
			_ = c.mount.Close()
			c.mount = nil
		}
		<-c.turn
	}
}

// Exports returns the exports that the server lists, in its order.
func (c *Client) Exports(ctx context.Context) ([]nfsclient.Export, error) {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	if err := c.list(ctx); err != nil {
		return nil, fmt.Errorf("nfsrdma: the exports of %s: %w", c.addr, err)
	}
	return slices.Clone(c.exports), nil
}

// Mount returns the file system of an export, or of a directory below an export
// (MNT of RFC 1813, Section 5.2.1). If the server refuses, the error contains
// an nfsclient.MountError, and names the exports that the server lists. The
// file system is usable until Close.
func (c *Client) Mount(ctx context.Context, export string) (*nfsclient.FS, error) {
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	root, flavors, err := c.mount.MntFlavors(ctx, export)
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w%s", c.host, export, err, c.listed(ctx, err))
	}
	flavor, err := c.choose(ctx, export, flavors)
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w", c.host, export, err)
	}
	cred := *c.cfg.NFS.Cred
	cred.Flavor = flavor
	fs, err := c.nfs.As(cred).FS(ctx, root, export)
	switch {
	case errors.Is(err, rpcmsg.AuthTooWeak): // although the export has the flavor
		err = fmt.Errorf("%w: the server wants connections with more protection: use %s", err, c.moreProtection())
	case errors.Is(err, nfs3.ErrAcces) && c.cfg.TCP: // the answer of Linux's server
		err = fmt.Errorf("%w: if the server wants connections with more protection, use %s", err, c.moreProtection())
	}
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w", c.host, export, err)
	}
	c.mounted[export] = true
	return fs, nil
}

// moreProtection returns the options of mounts that protect more than this client.
func (c *Client) moreProtection() string {
	if c.cfg.TLS == nil {
		return "xprtsec=mtls or xprtsec=tls, or sec=krb5p"
	}
	return "xprtsec=mtls"
}

// begin waits for the caller's turn, as long as ctx permits. It returns a context
// that ends with ctx and at Close, whichever comes first. The caller must call
// end.
func (c *Client) begin(ctx context.Context) (until context.Context, end func(), err error) {
	until, cancel := context.WithCancelCause(ctx)
	if c.closed.Err() != nil { // AfterFunc would let a call begin
		cancel(rdma.ErrClosed)
	}
	stop := context.AfterFunc(c.closed, func() { cancel(rdma.ErrClosed) })
	forget := func() {
		stop()
		cancel(nil)
	}
	select {
	case c.turn <- struct{}{}:
		return until, func() { <-c.turn; c.closeIdle(); forget() }, nil
	case <-until.Done():
		defer forget()
		return nil, nil, fmt.Errorf("nfsrdma: MOUNT of %s: %w", c.addr, context.Cause(until))
	}
}

// findMount finds the MOUNT program once. It must be the caller's turn.
func (c *Client) findMount(ctx context.Context) error {
	if c.mount != nil {
		return nil
	}
	search := c.MountSearch()
	m, err := search.Find(ctx)
	if err != nil {
		return fmt.Errorf("nfsrdma: MOUNT of %s: %w", c.addr, err)
	}
	c.mount = m
	return nil
}

// list asks for the exports. It must be the caller's turn.
func (c *Client) list(ctx context.Context) (err error) {
	c.asked = true
	c.exports, err = c.mount.Exports(ctx)
	return err
}

// listed names the exports of the server after it has refused one as unknown.
// It asks the server once, because a caller may try many paths.
func (c *Client) listed(ctx context.Context, err error) string {
	refused, ok := errors.AsType[*nfsclient.MountError](err)
	if !ok || refused.Status != mount3.ErrNoEnt {
		return ""
	}
	if !c.asked {
		_ = c.list(ctx) // an error leaves no exports
	}
	if len(c.exports) == 0 {
		return ""
	}
	var names []string
	for _, e := range c.exports {
		names = append(names, strconv.Quote(e.Path))
	}
	slices.Sort(names)
	return "; it exports " + strings.Join(names[:min(len(names), maxNamed)], ", ")
}

// Close tells the server that its exports are no longer used, and ends the
// connections. Calls under way fail with rdma.ErrClosed, or with oncrpc.ErrClosed over
// TCP. It returns nil, and
// may be called twice.
func (c *Client) Close() error {
	c.ended() // a call under way would keep its turn for as long as the server is away
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.goodbye()
	c.hangUp(nil)
	return nil
}

// goodbye tells the server that its exports are no longer used. Servers do not
// depend on it. It must be the caller's turn.
func (c *Client) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	if c.mount == nil && (len(c.mounted) == 0 || c.findMount(ctx) != nil) {
		return
	}
	for export := range c.mounted {
		_ = c.mount.Umnt(ctx, export)
	}
	clear(c.mounted)
	_ = c.mount.Close()
	c.mount = nil
}

// hangUp ends the connections; cause is the error of a server that would not
// answer a goodbye.
func (c *Client) hangUp(cause error) {
	for _, line := range c.lines {
		if cause != nil {
			line.Conn().Abort(cause)
		}
		_ = line.Close()
	}
	c.cfg.Delegations.Close()
}
