package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// minors are the minor versions of NFS version 4 by the words for them.
var minors = map[string]uint32{"4.1": nfs4.Minor1, "4.2": nfs4.Minor2}

// goodbyePart is the part of --timeout that the calls may take that tell a server
// of the end of a session.
const goodbyePart = 8

// session4 connects to a server and makes a session of version 4.
func (a *app) session4(ctx context.Context, srv server, minor uint32) (*nfs4client.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg, cred := a.brief(), a.cred()
	if err := errors.Join(a.recorded(&cfg.IWARP), a.encrypt(srv, &cfg)); err != nil {
		return nil, err
	}
	cfg.TCP, cfg.NFS.Cred = a.overTCP(), &cred
	cfg.Dialer = func(device *iwarp.Device) rdma.Dialer { return &dialer{device: device} }
	s, err := nfsrdma.DialV4(ctx, srv.addr(), minor, cfg)
	if step, ok := errors.AsType[*stepError](err); ok {
		return nil, step
	}
	if err != nil {
		return nil, versionError(ctx, srv.addr(), minor, err)
	}
	return s, nil
}

// versionError returns the error of a server that does not make a session of
// version 4.
func versionError(ctx context.Context, addr string, minor uint32, err error) error {
	if ended(ctx) {
		return context.Cause(ctx)
	}
	e := &stepError{at: addr, step: fmt.Sprintf("NFS version 4.%d", minor), err: err}
	refused, mismatch := errors.AsType[*oncrpc.ReplyError](err)
	switch {
	case mismatch && refused.High > 0:
		e.what = fmt.Sprintf("the server has NFS versions %d to %d only", refused.Low, refused.High)
		e.remedy = "use --vers 3, or turn version 4 on there (nfsrdmad: --vers 3,4.1,4.2)"
	case errors.Is(err, nfs4.ErrMinorVersMismatch):
		e.what = "the server has version 4, but not this minor version"
		e.remedy = fmt.Sprintf("use --vers 4.%d or --vers 3, or turn it on there", nfs4.Minor1+nfs4.Minor2-minor)
	case errors.Is(err, nfs4.ErrDelay):
		e.what = "the server answers, but puts off all calls (NFS4ERR_DELAY)"
		e.remedy = "see its log, or run the command again later (--timeout changes how long to wait)"
	default:
		return helloError(ctx, addr, err)
	}
	return e
}

// goodbye closes a session, and does not wait long for a server that does not
// answer any more.
func (a *app) goodbye(ctx context.Context, s *nfs4client.Session) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/goodbyePart)
	defer cancel()
	_ = s.Close(ctx)
}

// nfs4Info describes a server of version 4. Scripts depend on its JSON.
type nfs4Info struct {
	Owner          string      `json:"server_owner"` // so_major_id: text, or hexadecimal digits
	OwnerMinor     uint64      `json:"server_owner_minor"`
	Scope          string      `json:"server_scope"`
	Implementation string      `json:"implementation,omitempty"`
	Lease          int         `json:"lease_seconds"`
	Session        sessionInfo `json:"session"`
	Exports        []string    `json:"exports"`
}

// sessionInfo is the limits of a session's fore channel, as granted.
type sessionInfo struct {
	Slots       uint32 `json:"slots"`
	Operations  uint32 `json:"operations"`          // of a COMPOUND
	MaxRequest  uint32 `json:"max_request"`         // bytes
	MaxResponse uint32 `json:"max_response"`        // bytes
	MaxCached   uint32 `json:"max_response_cached"` // bytes
}

// info4 finds out which minor versions the server answers, and describes the
// server by the highest one.
func (a *app) info4(ctx context.Context, srv server, i *info) error {
	for _, word := range []string{"4.2", "4.1"} {
		s, err := a.session4(ctx, srv, minors[word])
		switch {
		case err == nil:
		case ended(ctx):
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
			i.V4, err = describe4(ctx, s)
		}
		a.goodbye(ctx, s)
		if err != nil {
			i.V4Error = err.Error()
		}
		if i.V4Error != "" && ctx.Err() != nil {
			return nil // nothing more can be learned in time
		}
	}
	if n := len(i.Versions); n > 1 && i.Versions[n-1] == "4.1" && i.Versions[n-2] == "4.2" {
		i.Versions[n-2], i.Versions[n-1] = "4.1", "4.2" // in rising order
	}
	return nil
}

// describe4 describes the server of a session.
func describe4(ctx context.Context, s *nfs4client.Session) (*nfs4Info, error) {
	i := newNFS4Info(s.Server())
	w := walk4{s: s, left: maxPseudo}
	err := w.root(ctx)
	i.Exports = append(i.Exports, w.found...)
	return i, err
}

// newNFS4Info describes a server without its exports.
func newNFS4Info(d nfs4client.Server) *nfs4Info {
	f := d.Fore
	return &nfs4Info{
		Owner: identity(d.Major), OwnerMinor: d.MinorID, Scope: identity(d.Scope), Lease: int(d.Lease.Seconds()),
		Implementation: strings.TrimSpace(d.Name + " " + d.Domain),
		Session:        sessionInfo{f.MaxRequests, f.MaxOperations, f.MaxRequestSize, f.MaxResponseSize, f.MaxResponseSizeCached},
		Exports:        []string{},
	}
}

// identity returns opaque bytes as text if they are text, otherwise as
// hexadecimal digits.
func identity(b []byte) string {
	for _, c := range b {
		if c < 0x20 || c > 0x7e {
			return hex.EncodeToString(b)
		}
	}
	return string(b)
}

// maxPseudo is how many directories of the pseudo file system are listed, and
// maxFound how many exports.
const (
	maxPseudo = 256
	maxFound  = 4096
)

// A walk4 finds the exports in the namespace of version 4: the directories in
// which another file system than the root's begins (RFC 8881, Section 7). A root
// with anything but directories is an export itself.
type walk4 struct {
	s     *nfs4client.Session
	fsid  nfs4.FSID
	left  int // directories that may still be listed
	found []string
}

func (w *walk4) root(ctx context.Context) error {
	h, err := w.s.Walk(ctx, "")
	if err != nil {
		return err
	}
	attrs, err := w.s.GetAttr(ctx, h, nfs4.BitmapOf(nfs4.AttrFSID))
	if err != nil {
		return err
	}
	w.fsid = attrs.FSID
	return w.list(ctx, "")
}

// list looks for exports below a pseudo directory.
func (w *walk4) list(ctx context.Context, path string) error {
	if w.left--; w.left < 0 {
		return fmt.Errorf("more than %d directories lead to the exports: only some exports are listed", maxPseudo)
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
		case e.Attrs.Type != nfs4.TypeDir: // no pseudo directory has such entries
			w.found = append(w.found, path+"/")
			return nil
		case len(w.found)+len(below) >= maxFound:
			return fmt.Errorf("more than %d names in the directories that lead to the exports: only some exports are listed", maxFound)
		case e.Attrs.FSID != w.fsid:
			w.found = append(w.found, path+"/"+e.Name)
		default:
			below = append(below, path+"/"+e.Name)
		}
	}
	for _, dir := range below {
		if err := w.list(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// print prints i as rows of text.
func (i *nfs4Info) print(row func(name, format string, args ...any)) {
	s := &i.Session
	row("server owner", "%s, %d; scope %s", escape(i.Owner), i.OwnerMinor, escape(i.Scope))
	if i.Implementation != "" {
		row("implementation", "%s", escape(i.Implementation))
	}
	row("lease", "%d s", i.Lease)
	row("session", "%d slots, %d operations a COMPOUND, requests of %d bytes, replies of %d bytes, %d of them kept",
		s.Slots, s.Operations, s.MaxRequest, s.MaxResponse, s.MaxCached)
	for _, e := range i.Exports {
		row("version 4 export", "%s", escape(e))
	}
}
