package nfsrdma

import (
	"context"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/tickets"
)

// choose returns the flavour of the calls for an export, whose flavours are in the
// server's order (RFC 2623, Section 2.7).
func (c *Client) choose(ctx context.Context, export string, wanted []uint32) (uint32, error) {
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

// firstUsable returns the first flavour of wanted with which this host can make calls.
// A Kerberos flavour for which the user who mounts lacks a ticket is the last resort:
// other users may have tickets.
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
