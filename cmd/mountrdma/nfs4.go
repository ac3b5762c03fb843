package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// nfs4Minors maps version numbers to NFSv4 minor versions.
var nfs4Minors = map[string]uint32{"4.1": nfs4.Minor1, "4.2": nfs4.Minor2}

// closeTimeoutDivisor is the fraction of --timeout within which the calls that destroy a
// session must complete.
const closeTimeoutDivisor = 8

// dialNFS4 connects to a server and creates an NFSv4 session.
func (a *app) dialNFS4(ctx context.Context, srv server, minor uint32) (*nfs4client.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg, cred := a.commandConfig(), a.callCred()
	if err := errors.Join(a.enableRecording(&cfg.IWARP), a.setTLS(srv, &cfg)); err != nil {
		return nil, err
	}
	cfg.TCP, cfg.NFS.Cred = a.overTCP(), &cred
	cfg.Dialer = func(device *iwarp.Device) rdma.Dialer { return &dialer{device, new(atomic.Bool)} }
	s, err := nfsrdma.DialV4(ctx, srv.addr(), minor, cfg)
	if all, ok := errors.AsType[*serverlist.Error](err); ok {
		return nil, newListError(ctx, all)
	}
	if step, ok := errors.AsType[*stepError](err); ok {
		return nil, step
	}
	if err != nil {
		return nil, nfs4Error(ctx, srv.addr(), minor, err)
	}
	return s, nil
}

// nfs4Error returns the error for a server that does not create an NFSv4 session.
func nfs4Error(ctx context.Context, addr string, minor uint32, err error) error {
	if isCanceled(ctx) {
		return context.Cause(ctx)
	}
	e := &stepError{at: addr, step: fmt.Sprintf("NFSv4.%d", minor), err: err}
	refused, mismatch := errors.AsType[*oncrpc.ReplyError](err)
	switch {
	case mismatch && refused.High > 0:
		e.what = fmt.Sprintf("the server supports only NFS versions %d to %d", refused.Low, refused.High)
		e.remedy = "use --vers 3, or enable NFSv4 there (nfsrdmad: --vers 3,4.1,4.2)"
	case errors.Is(err, nfs4.ErrMinorVersMismatch):
		e.what = "the server supports NFSv4, but not this minor version"
		e.remedy = fmt.Sprintf("use --vers 4.%d or --vers 3, or enable it there", nfs4.Minor1+nfs4.Minor2-minor)
	case errors.Is(err, nfs4.ErrDelay):
		e.what = "the server delays all calls (NFS4ERR_DELAY)"
		e.remedy = "see its log, or run the command again later (--timeout sets the time limit)"
	default:
		return firstCallError(ctx, addr, err)
	}
	return e
}

// closeNFS4 destroys a session. It does not wait long for a server that no longer responds.
func (a *app) closeNFS4(ctx context.Context, s *nfs4client.Session) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/closeTimeoutDivisor)
	defer cancel()
	_ = s.Close(ctx)
}

// nfs4Info describes an NFSv4 server. Scripts depend on its JSON.
type nfs4Info struct {
	Owner          string      `json:"server_owner"` // so_major_id: text, or hexadecimal digits
	OwnerMinor     uint64      `json:"server_owner_minor"`
	Scope          string      `json:"server_scope"`
	Implementation string      `json:"implementation,omitempty"`
	Lease          int         `json:"lease_seconds"`
	Session        sessionInfo `json:"session"`
	Exports        []string    `json:"exports"`
}

// sessionInfo is the granted limits of a session's fore channel.
type sessionInfo struct {
	Slots       uint32 `json:"slots"`
	Operations  uint32 `json:"operations"`          // per COMPOUND
	MaxRequest  uint32 `json:"max_request"`         // bytes
	MaxResponse uint32 `json:"max_response"`        // bytes
	MaxCached   uint32 `json:"max_response_cached"` // bytes
}

// queryNFS4 finds out which minor versions the server supports, and describes the server
// with the highest one.
func (a *app) queryNFS4(ctx context.Context, srv server, i *serverInfo) error {
	for _, word := range []string{"4.2", "4.1"} {
		s, err := a.dialNFS4(ctx, srv, nfs4Minors[word])
		switch {
		case err == nil:
		case isCanceled(ctx):
			return err
		case errors.Is(err, nfs4.ErrMinorVersMismatch):
			continue
		default:
			if _, refused := errors.AsType[*oncrpc.ReplyError](err); !refused {
				i.V4Error = err.Error()
			}
			return nil
		}
		i.Versions = append(i.Versions, word)
		if i.V4 == nil {
			i.V4, err = describeNFS4(ctx, s)
		}
		a.closeNFS4(ctx, s)
		if err != nil {
			i.V4Error = err.Error()
		}
		if i.V4Error != "" && ctx.Err() != nil {
			return nil // nothing more can be learned in time
		}
	}
	if n := len(i.Versions); n > 1 && i.Versions[n-1] == "4.1" && i.Versions[n-2] == "4.2" {
		i.Versions[n-2], i.Versions[n-1] = "4.1", "4.2" // in ascending order
	}
	return nil
}

// describeNFS4 describes the server of a session.
func describeNFS4(ctx context.Context, s *nfs4client.Session) (*nfs4Info, error) {
	i := newNFS4Info(s.Server())
	w := pseudoWalk{s: s, dirsLeft: maxPseudoDirs}
	err := w.walkRoot(ctx)
	i.Exports = append(i.Exports, w.exports...)
	return i, err
}

// newNFS4Info describes a server without its exports.
func newNFS4Info(d nfs4client.Server) *nfs4Info {
	f := d.Fore
	return &nfs4Info{
		Owner: printableOrHex(d.Major), OwnerMinor: d.MinorID, Scope: printableOrHex(d.Scope), Lease: int(d.Lease.Seconds()),
		Implementation: strings.TrimSpace(d.Name + " " + d.Domain),
		Session:        sessionInfo{f.MaxRequests, f.MaxOperations, f.MaxRequestSize, f.MaxResponseSize, f.MaxResponseSizeCached},
		Exports:        []string{},
	}
}

// printableOrHex returns opaque bytes as text if they are text, otherwise as
// hexadecimal digits.
func printableOrHex(b []byte) string {
	for _, c := range b {
		if c < 0x20 || c > 0x7e {
			return hex.EncodeToString(b)
		}
	}
	return string(b)
}

// maxPseudoDirs bounds the directories of the pseudo file system that are listed, and
// maxPseudoNames their names.
const (
	maxPseudoDirs  = 256
	maxPseudoNames = 4096
)

// A pseudoWalk finds the exports in the NFSv4 namespace: the directories that are not on the
// root's file system (RFC 8881, Section 7). A root that contains anything except directories
// is an export itself.
type pseudoWalk struct {
	s        *nfs4client.Session
	fsid     nfs4.FSID
	dirsLeft int // number of directories that may still be listed
	exports  []string
}

func (w *pseudoWalk) walkRoot(ctx context.Context) error {
	h, err := w.s.Walk(ctx, "")
	if err != nil {
		return err
	}
	attrs, err := w.s.GetAttr(ctx, h, nfs4.BitmapOf(nfs4.AttrFSID))
	if err != nil {
		return err
	}
	w.fsid = attrs.FSID
	return w.walkDir(ctx, "")
}

// walkDir searches for exports below a pseudo directory.
func (w *pseudoWalk) walkDir(ctx context.Context, path string) error {
	if w.dirsLeft--; w.dirsLeft < 0 {
		return fmt.Errorf("more than %d directories lead to the exports: only some exports are listed", maxPseudoDirs)
	}
	h, err := w.s.Walk(ctx, path)
	if err != nil {
		return err
	}
	var below []string
	for e, err := range w.s.ReadDir(ctx, h, nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFSID)) {
		switch {
		case err != nil:
			return err
		case e.Attrs.Type != nfs4.TypeDir: // a pseudo directory has no such entries
			w.exports = append(w.exports, path+"/")
			return nil
		case len(w.exports)+len(below) >= maxPseudoNames:
			return fmt.Errorf("more than %d names in the directories that lead to the exports: only some exports are listed", maxPseudoNames)
		case e.Attrs.FSID != w.fsid:
			w.exports = append(w.exports, path+"/"+e.Name)
		default:
			below = append(below, path+"/"+e.Name)
		}
	}
	for _, dir := range below {
		if err := w.walkDir(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// printRows prints i as rows.
func (i *nfs4Info) printRows(row func(name, format string, args ...any)) {
	s := &i.Session
	row("server owner", "%s, %d; scope %s", escapePath(i.Owner), i.OwnerMinor, escapePath(i.Scope))
	if i.Implementation != "" {
		row("implementation", "%s", escapePath(i.Implementation))
	}
	row("lease", "%d s", i.Lease)
	row("session", "%d slots, %d operations per COMPOUND, requests of %d bytes, replies of %d bytes, %d bytes of a reply cached",
		s.Slots, s.Operations, s.MaxRequest, s.MaxResponse, s.MaxCached)
	for _, e := range i.Exports {
		row("NFSv4 export", "%s", escapePath(e))
	}
}
