package nfsrdma

import (
	"context"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
)

// chooseFlavor returns the flavor of calls for an export. wanted are the flavors that the
// export accepts, in the server's order (RFC 2623, Section 2.7).
func (c *Client) chooseFlavor(ctx context.Context, export string, wanted []uint32) (uint32, error) {
	for _, f := range c.cfg.Sec {
		if len(wanted) == 0 || slices.Contains(wanted, f) {
			return f, nil
		}
	}
	if len(c.cfg.Sec) > 0 {
		return 0, &nfsclient.FlavorError{Path: export, Wanted: wanted, Accepted: c.cfg.Sec}
	}
	return c.firstUsable(ctx, export, wanted)
}

// firstUsable returns the first flavor in wanted that this host can use. If there is none,
// it returns a Kerberos flavor for which the mounting user has no ticket, because other
// users may have tickets.
func (c *Client) firstUsable(ctx context.Context, export string, wanted []uint32) (uint32, error) {
	own := c.cfg.NFS.Cred.Flavor
	if len(wanted) == 0 {
		return own, nil
	}
	var passed uint32
	var lack error
	for _, f := range wanted {
		if f == own {
			return own, nil
		}
		if lack != nil || c.cfg.Kerberos == nil || !exports.Flavor(f).Kerberos() {
			continue
		}
		if lack = c.cfg.Kerberos(ctx); lack == nil {
			return f, nil
		}
		passed = f
	}
	if e, ok := errors.AsType[*tickets.Error](lack); ok && e.NoTicket() {
		return passed, nil
	}
	return 0, &nfsclient.FlavorError{Path: export, Wanted: wanted, Accepted: []uint32{own}, Cause: lack}
}
