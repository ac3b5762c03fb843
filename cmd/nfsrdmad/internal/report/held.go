package report

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// MaxHeld bounds the files in one HeldList.
const MaxHeld = 1000

// A HeldList is the control socket's response at /clients/held and /locks: the files that clients
// hold, a part of them or a single one. docs/operations.md describes it.
type HeldList struct {
	Version  int           `json:"version"`
	Client   *clientDoc    `json:"client,omitempty"` // for the files of one client
	File     string        `json:"file,omitempty"`   // for the holders of one file, as in Path
	Files    []heldFileDoc `json:"files"`
	More     int           `json:"more"`                // number of further files
	Next     string        `json:"next"`                // for the next part, if there are any
	Counters int           `json:"counter_delegations"` // of all mounts, on listed and other files
}

type heldFileDoc struct {
	Path        string              `json:"path"` // on the server; quoted as in Go if it is not plain text
	Removed     bool                `json:"removed"`
	Export      string              `json:"export"`
	FileID      uint64              `json:"fileid"`
	Opens       []heldOpenDoc       `json:"opens"`
	Delegations []heldDelegationDoc `json:"delegations"`
	Locks       []heldLockDoc       `json:"locks"`
	Waiters     []lockWaiterDoc     `json:"waiters"`
	Omitted     bool                `json:"omitted"` // there are more opens, locks or waiters
}

// A holderDoc is a client that holds a file.
type holderDoc struct {
	Client  string `json:"client"` // its ID, or empty for a mount with delegation counters
	Owner   string `json:"owner"`  // quoted as in Go if it is not plain text
	Address string `json:"address"`
	NFS     string `json:"nfs_version"`
}

type heldOpenDoc struct {
	holderDoc
	Access string `json:"access"` // read, write or read+write
	Deny   string `json:"deny"`   // likewise, or none
}

type heldDelegationDoc struct {
	holderDoc
	Kind     string `json:"kind"` // read, write or counter
	Recalled bool   `json:"recalled"`
}

type heldLockDoc struct {
	holderDoc
	LockOwner string  `json:"lock_owner"` // quoted as in Go if it is not plain text
	Type      string  `json:"type"`       // read or write
	Start     uint64  `json:"start"`
	End       *uint64 `json:"end"` // the last byte; null: to the end of the file
}

type lockWaiterDoc struct {
	heldLockDoc
	Seconds float64 `json:"waiting_seconds"`
	OnHost  bool    `json:"for_host_process"`
}

// SchemaVersion returns the document's version.
func (d *HeldList) SchemaVersion() int { return d.Version }

// A HeldQuery selects the files of a HeldList.
type HeldQuery struct {
	Client uint64 // 0: all clients
	After  string // a HeldList's Next
	Object string // exportset.ObjectName of the only file; empty: all files
	File   string // its path on the host
}

// ErrNoClient reports that a HeldQuery's client does not exist.
var ErrNoClient = errors.New("no such client")

// ErrNotExported reports that a HeldQuery's file is in no export, and that no client holds it.
var ErrNotExported = errors.New("in no export")

var errBadPage = errors.New("--after has an invalid value: use the one that the previous part ends with")

// CollectHeld lists files that clients hold.
func (src *Source) CollectHeld(ctx context.Context, q *HeldQuery) (*HeldList, error) {
	d := &HeldList{Version: SchemaVersion, Files: []heldFileDoc{}}
	if src.ClientState == nil {
		return d, nil
	}
	d.Counters = src.Grants.Stats().InForce
	if q.Object != "" {
		d.File = quoteUnprintable(q.File)
		f, held := src.ClientState.HeldObject(ctx, q.Object)
		switch {
		case held:
			d.Files = append(d.Files, newHeldFileDoc(&f))
			if d.Files[0].Path == "" {
				d.Files[0].Path = d.File
			}
		case !src.ClientState.HasHostPath(q.File):
			return nil, ErrNotExported
		}
		return d, nil
	}
	return d, src.collectHeldFiles(ctx, q, d)
}

func (src *Source) collectHeldFiles(ctx context.Context, q *HeldQuery, d *HeldList) error {
	after, err := hex.DecodeString(q.After)
	if err != nil {
		return errBadPage
	}
	if q.Client != 0 {
		c, ok := src.ClientState.Client(q.Client)
		if !ok {
			return ErrNoClient
		}
		doc := newClientDoc(&c)
		d.Client = &doc
	}
	page, status := src.ClientState.HeldFiles(ctx, q.Client, string(after), MaxHeld)
	if status != nfs4.OK {
		return ErrNoClient
	}
	for i := range page.Files {
		d.Files = append(d.Files, newHeldFileDoc(&page.Files[i]))
	}
	d.More, d.Next = page.Rest, hex.EncodeToString([]byte(page.Next))
	return nil
}

func newHeldFileDoc(f *nfs4server.HeldFile) heldFileDoc {
	d := heldFileDoc{
		Path: quoteUnprintable(f.Path), Removed: f.Removed, Export: quoteUnprintable(f.Export), FileID: f.FileID, Omitted: f.Omitted,
		Opens: []heldOpenDoc{}, Delegations: []heldDelegationDoc{}, Locks: []heldLockDoc{}, Waiters: []lockWaiterDoc{},
	}
	for _, o := range f.Opens {
		d.Opens = append(d.Opens, heldOpenDoc{newHolderDoc(o.FileHolder), formatModes(o.Access), formatModes(o.Deny)})
	}
	for _, g := range f.Delegations {
		kind := "read"
		if g.Write {
			kind = "write"
		}
		d.Delegations = append(d.Delegations, heldDelegationDoc{newHolderDoc(g.FileHolder), kind, g.Recalled})
	}
	for _, c := range f.Counters {
		d.Delegations = append(d.Delegations, heldDelegationDoc{holderDoc{Owner: "mountrdma", Address: c.Peer.Addr.String()}, "counter", c.Recalled})
	}
	for i := range f.Locks {
		d.Locks = append(d.Locks, newHeldLockDoc(&f.Locks[i]))
	}
	for i := range f.Waiters {
		w := &f.Waiters[i]
		d.Waiters = append(d.Waiters, lockWaiterDoc{newHeldLockDoc(&w.HeldLock), w.For.Seconds(), w.OnHost})
	}
	return d
}

func newHolderDoc(h *nfs4state.FileHolder) holderDoc {
	d := holderDoc{Client: fmt.Sprintf("%016x", h.ID), Owner: quoteUnprintable(h.Name), NFS: fmt.Sprintf("4.%d", h.Minor)}
	addr := h.Addr
	if p, ok := h.Conn.(*oncrpc.Peer); ok && p != nil {
		addr = p.Addr
	}
	switch {
	case h.Machine:
		d.NFS, d.Address = "3", addr.Addr().String() // its port changes
	case addr != netip.AddrPort{}:
		d.Address = addr.String()
	}
	return d
}

func newHeldLockDoc(l *nfs4state.HeldLock) heldLockDoc {
	d := heldLockDoc{holderDoc: newHolderDoc(l.FileHolder), LockOwner: quoteUnprintable(l.Owner), Type: "read", Start: l.Range.Start}
	if l.Machine && len(l.Owner) >= 4 { // see nlmserver: svid, then oh
		d.LockOwner = fmt.Sprintf("%s svid %d", quoteUnprintable(l.Owner[4:]), int32(binary.BigEndian.Uint32([]byte(l.Owner))))
	}
	if l.Exclusive {
		d.Type = "write"
	}
	if l.Range.End != locks.ToEnd {
		d.End = &l.Range.End
	}
	return d
}

// formatModes names access or deny modes.
func formatModes(modes uint32) string {
	switch modes & nfs4.ShareBoth {
	case nfs4.ShareRead:
		return "read"
	case nfs4.ShareWrite:
		return "write"
	case nfs4.ShareBoth:
		return "read+write"
	}
	return "none"
}

// HeldObject returns a HeldQuery's Object for a key (posix.AppendInodeKey).
func HeldObject(key []byte) string { return exportset.ObjectName(key) }

// formatBytes names a lock's bytes.
func (l *heldLockDoc) formatBytes() string {
	if l.End == nil {
		return fmt.Sprintf("bytes %d to the end", l.Start)
	}
	return fmt.Sprintf("bytes %d to %d", l.Start, *l.End)
}

// describe names a file: its path, or else its number and export.
func (f *heldFileDoc) describe() string {
	name := f.Path
	switch {
	case name != "":
	case f.FileID != 0:
		name = fmt.Sprintf("fileid %d in %s", f.FileID, f.Export)
	case f.Export != "":
		name = "a file in " + f.Export
	default:
		name = "a file in no export"
	}
	if f.Removed {
		name += " (removed)"
	}
	return name
}

// A heldRow is a line about a client and a file.
type heldRow struct {
	holderDoc
	What, Details, LockOwner string
}

// rows returns lines about what is held, and who waits.
func (f *heldFileDoc) rows() (list []heldRow) {
	for _, o := range f.Opens {
		row := heldRow{o.holderDoc, "open", o.Access, ""}
		if o.Deny != "none" {
			row.Details += ", denies " + o.Deny
		}
		list = append(list, row)
	}
	for _, g := range f.Delegations {
		row := heldRow{g.holderDoc, "delegation", g.Kind, ""}
		if g.Recalled {
			row.Details += ", recalled"
		}
		list = append(list, row)
	}
	for i := range f.Locks {
		l := &f.Locks[i]
		list = append(list, heldRow{l.holderDoc, "lock", l.Type + ", " + l.formatBytes(), l.LockOwner})
	}
	for i := range f.Waiters {
		w := &f.Waiters[i]
		row := heldRow{w.holderDoc, "waits " + formatSpan(time.Duration(w.Seconds*float64(time.Second))), w.Type + ", " + w.formatBytes(), w.LockOwner}
		if w.OnHost {
			row.Details += ", locked by a process of the server"
		}
		list = append(list, row)
	}
	return list
}
