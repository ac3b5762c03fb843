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

// MountSearch returns the parameters for finding the server's MOUNT program, for callers
// that search on their own.
func (c *Client) MountSearch() nfsclient.MountSearch {
	e := c.server()
	s := nfsclient.MountSearch{
		NFS: c.lines[0], NFSAddr: "RDMA " + e.Addr(), Host: e.Host,
		MountHost: c.cfg.MountHost, MountPort: c.cfg.MountPort, Cred: c.cfg.NFS.Cred,
	}
	if c.cfg.TCP {
		s.NFSAddr = "TCP " + e.Addr()
	}
	if c.cfg.TLS != nil && !c.cfg.ClearMOUNT {
		s.DialMOUNT = e.dialMOUNT
	}
	return s
}

// MOUNT returns the client for MOUNT procedures, which Exports and Mount use. It can be
// used until CloseMOUNT or Close.
func (c *Client) MOUNT(ctx context.Context) (*nfsclient.Mount, error) {
	ctx, end, err := c.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	return c.mount, nil
}

// CloseMOUNT closes the connection to the server's MOUNT program, unless NFS calls use
// the same connection. File systems do not need it, and servers close it when idle. The
// next call that needs MOUNT reconnects. CloseMOUNT does not wait: if calls use the
// connection, the last of them closes it.
func (c *Client) CloseMOUNT() {
	c.mountIdle.Store(true)
	c.closeIdle()
}

// closeIdle closes the connection to MOUNT if CloseMOUNT was called and no goroutine
// holds turn.
func (c *Client) closeIdle() {
	for c.mountIdle.Load() { // repeated if CloseMOUNT was called before turn was released
		select {
		case c.turn <- struct{}{}:
		default:
			return // the goroutine that holds turn calls closeIdle at its end
		}
		if c.mountIdle.Swap(false) && c.mount != nil {
			_ = c.mount.Close()
			c.mount = nil
		}
		<-c.turn
	}
}

// Exports returns the server's list of exports in the server's order.
func (c *Client) Exports(ctx context.Context) ([]nfsclient.Export, error) {
	ctx, end, err := c.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	if err := c.listExports(ctx); err != nil {
		return nil, fmt.Errorf("nfsrdma: the exports of %s: %w", c.addr, err)
	}
	return slices.Clone(c.exports), nil
}

// Mount returns the file system of an export or of a directory in an export (MNT of RFC
// 1813, Section 5.2.1). If the server denies access, the error contains an
// nfsclient.MountError and names the server's exports. The file system can be used until
// Close.
func (c *Client) Mount(ctx context.Context, export string) (*nfsclient.FS, error) {
	ctx, end, err := c.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := c.findMount(ctx); err != nil {
		return nil, err
	}
	root, flavors, err := c.mount.MntFlavors(ctx, export)
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w%s", c.server().Host, export, err, c.exportsHint(ctx, err))
	}
	flavor, err := c.chooseFlavor(ctx, export, flavors)
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w", c.server().Host, export, err)
	}
	cred := *c.cfg.NFS.Cred
	cred.Flavor = flavor
	fs, err := c.nfs.As(cred).FS(ctx, root, export)
	switch {
	case errors.Is(err, rpcmsg.AuthTooWeak): // although the export accepts the flavor
		err = fmt.Errorf("%w: the server requires connections with stronger protection: use %s", err, c.moreProtection())
	case errors.Is(err, nfs3.ErrAcces) && c.cfg.TCP: // the status of Linux's server
		err = fmt.Errorf("%w: if the server requires connections with stronger protection, use %s", err, c.moreProtection())
	}
	if err != nil {
		return nil, fmt.Errorf("nfsrdma: mounting %s:%s: %w", c.server().Host, export, err)
	}
	c.mounted[export] = true
	return fs, nil
}

// moreProtection returns mount options with stronger protection than this client's.
func (c *Client) moreProtection() string {
	if c.cfg.TLS == nil {
		return "xprtsec=mtls or xprtsec=tls, or sec=krb5p"
	}
	return "xprtsec=mtls"
}

// takeTurn acquires turn, unless ctx ends first. It returns a context that ends with ctx
// or at Close, whichever is first. The caller must call end, which releases turn.
func (c *Client) takeTurn(ctx context.Context) (until context.Context, end func(), err error) {
	until, cancel := context.WithCancelCause(ctx)
	if c.closed.Err() != nil { // AfterFunc cancels only later, in another goroutine
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

// findMount connects to the server's MOUNT program, unless connected. The caller must hold turn.
func (c *Client) findMount(ctx context.Context) error {
	at := c.server()
	if c.mount != nil && c.mountServer == at {
		return nil
	}
	if c.mount != nil {
		_ = c.mount.Close()
		c.mount = nil
	}
	search := c.MountSearch()
	m, err := search.Find(ctx)
	if err != nil {
		return fmt.Errorf("nfsrdma: MOUNT of %s: %w", at.Addr(), err)
	}
	c.mount, c.mountServer = m, at
	return nil
}

// listExports gets the server's exports. The caller must hold turn.
func (c *Client) listExports(ctx context.Context) (err error) {
	c.exportsAsked = true
	c.exports, err = c.mount.Exports(ctx)
	return err
}

// exportsHint returns a text that lists the server's exports, for the error of an unknown
// export. It asks the server once, because a caller may try many paths.
func (c *Client) exportsHint(ctx context.Context, err error) string {
	refused, ok := errors.AsType[*nfsclient.MountError](err)
	if !ok || refused.Status != mount3.ErrNoEnt {
		return ""
	}
	if !c.exportsAsked {
		_ = c.listExports(ctx) // after an error there are no exports
	}
	if len(c.exports) == 0 {
		return ""
	}
	var names []string
	for _, e := range c.exports {
		names = append(names, strconv.Quote(e.Path))
	}
	slices.Sort(names)
	return "; it exports " + strings.Join(names[:min(len(names), maxNamedExports)], ", ")
}

// unmountAll tells the server that its exports are no longer used, as a courtesy. The
// caller must hold turn.
func (c *Client) unmountAll() {
	ctx, cancel := context.WithTimeout(context.Background(), unmountTimeout)
	defer cancel()
	if c.mount == nil && len(c.mounted) == 0 || c.findMount(ctx) != nil {
		return
	}
	for export := range c.mounted {
		_ = c.mount.Umnt(ctx, export)
	}
	clear(c.mounted)
	_ = c.mount.Close()
	c.mount = nil
}
