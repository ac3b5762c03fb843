package nfsrdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
)

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
