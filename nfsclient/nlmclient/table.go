package nlmclient

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// wholeFile is the range of a whole file, even if it grows.
var wholeFile = locks.Range{End: locks.ToEnd}

// A lockTable holds the locks that the server has granted to this mount, and
// the waiting requests. Client.mu guards it.
type lockTable struct {
	ownerList  *ownerList // nil if there is no list
	name       string
	files      map[string]*lockedFile // by handle: files with locks or requests
	identities map[Owner]*ownerIdentity
	usedSVIDs  map[int32]bool // SVIDs in use
	nextSVID   int32          // SVID
	cookie     uint32
}

// A lockedFile is a file on the server with locks or requests from this mount.
type lockedFile struct {
	handle  []byte
	object  locks.Object
	holders map[Owner]*fileOwner
	queue   []*lockRequest // in order of arrival
}

// A fileOwner is one owner's state for one file.
type fileOwner struct {
	file         *lockedFile
	owner        Owner
	identity     *ownerIdentity
	locks        *locks.Owner
	rangesByKind [2]*locks.Part // shared and exclusive ranges
	pid          uint32         // from the last request
	cred         rpcmsg.Cred    // from the last request
	userCount    int            // requests in progress
	sem          chan struct{}  // has an element during a call for this owner and file
	listLine     string         // in the ownerList; guarded by sem

	// uncertain is set if the server may have a lock that is not in locks. The
	// list then keeps the line for the next Client.
	uncertain bool
}

// An ownerIdentity identifies an Owner to the server. Servers distinguish
// owners by the SVID and the client's address, but not by the client's process.
// A Client's SVIDs therefore start at a random number.
type ownerIdentity struct {
	svid     int32
	oh       []byte
	holders  map[*fileOwner]bool
	requests map[*lockRequest]bool
}

// hasLocksLocked reports whether the owner has locks on any file.
func (id *ownerIdentity) hasLocksLocked() bool {
	for h := range id.holders {
		if h.locks.Len() > 0 {
			return true
		}
	}
	return false
}

func newTable(name string, first int32) lockTable {
	return lockTable{
		name: name, files: make(map[string]*lockedFile), identities: make(map[Owner]*ownerIdentity), usedSVIDs: make(map[int32]bool),
		nextSVID: first & (1<<31 - 1),
	}
}

// useHolderLocked returns the fileOwner for a request, and increments its use
// count.
func (t *lockTable) useHolderLocked(handle []byte, o Owner) *fileOwner {
	f := t.files[string(handle)]
	if f == nil {
		f = &lockedFile{handle: append([]byte(nil), handle...), holders: make(map[Owner]*fileOwner)}
		t.files[string(handle)] = f
	}
	h := f.holders[o]
	if h == nil {
		h = &fileOwner{file: f, owner: o, identity: t.identityLocked(o), sem: make(chan struct{}, 1)}
		h.locks = f.object.NewOwner(h)
		h.rangesByKind = [2]*locks.Part{h.locks.NewPart(), h.locks.NewPart()}
		h.identity.holders[h] = true
		f.holders[o] = h
	}
	h.userCount++
	return h
}

func (t *lockTable) identityLocked(o Owner) *ownerIdentity {
	id := t.identities[o]
	if id == nil {
		for t.nextSVID = max(1, t.nextSVID); t.usedSVIDs[t.nextSVID]; t.nextSVID = max(1, (t.nextSVID+1)&(1<<31-1)) {
		}
		id = &ownerIdentity{
			svid: t.nextSVID, oh: fmt.Appendf(nil, "%d@%s", t.nextSVID, t.name), holders: make(map[*fileOwner]bool), requests: make(map[*lockRequest]bool),
		}
		t.nextSVID = (t.nextSVID + 1) & (1<<31 - 1)
		t.identities[o] = id
		t.usedSVIDs[id.svid] = true
	}
	return id
}

// releaseHolderLocked decrements h's use count, and removes h if it is no
// longer needed.
func (t *lockTable) releaseHolderLocked(h *fileOwner) {
	h.userCount--
	if h.userCount > 0 || h.locks.Len() > 0 {
		return
	}
	if !h.uncertain {
		t.ownerList.removeLine(h.listLine)
	}
	delete(h.file.holders, h.owner)
	if len(h.file.holders) == 0 {
		delete(t.files, string(h.file.handle))
	}
	if delete(h.identity.holders, h); len(h.identity.holders) == 0 {
		delete(t.identities, h.owner)
		delete(t.usedSVIDs, h.identity.svid)
	}
}

// finishUse finishes a request that useHolder started.
func (c *Client) finishUse(h *fileOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseHolderLocked(h)
	c.requests.Done()
}

// Holds reports whether an owner has locks on a file, or requests for it in
// progress.
func (c *Client) Holds(handle []byte, o Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[string(handle)]
	return f != nil && f.holders[o] != nil
}

// useHolder returns the owner's state for a file. It is nil if there is none,
// or if the Client is closed. Otherwise useHolder starts a request, which the
// caller must finish with finishUse.
func (c *Client) useHolder(handle []byte, o Owner) *fileOwner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[string(handle)]; c.closed || f == nil || f.holders[o] == nil {
		return nil
	}
	c.requests.Add(1)
	return c.useHolderLocked(handle, o)
}

// useAllHolders returns all owners that have locks, for each file. The caller
// must call releaseHolder for each.
func (c *Client) useAllHolders() (all []*fileOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		for _, h := range f.holders {
			if h.locks.Len() > 0 {
				h.userCount++
				all = append(all, h)
			}
		}
	}
	return all
}

// releaseHolder decrements h's use count.
func (c *Client) releaseHolder(h *fileOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseHolderLocked(h)
}

// hasLocks reports whether the table has any locks.
func (c *Client) hasLocks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if f.object.Locked() {
			return true
		}
	}
	return false
}

// setLocked records that the server has granted a lock.
func (c *Client) setLocked(h *fileOwner, r locks.Range, exclusive bool) {
	h.rangesByKind[partIndex(exclusive)].Lock(r, exclusive)
}

func partIndex(exclusive bool) int {
	if exclusive {
		return 1
	}
	return 0
}

// A lockPiece is a range in a file, and how one owner has locked it.
type lockPiece struct {
	locks.Range
	kind locks.Kind
}

// lockPieces returns h's locks in r, and, if gaps is set, the unlocked ranges
// between them.
func (c *Client) lockPieces(h *fileOwner, r locks.Range, gaps bool) (list []lockPiece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(from, to uint64, kind locks.Kind) {
		if from <= to && (gaps || kind != locks.None) {
			list = append(list, lockPiece{locks.Range{Start: from, End: to}, kind})
		}
	}
	next, end := r.Start, false
	for _, p := range h.locksInLocked(r) {
		if p.Start > next {
			add(next, p.Start-1, locks.None)
		}
		add(p.Start, p.End, p.kind)
		next, end = p.End+1, p.End == locks.ToEnd
	}
	if !end {
		add(next, r.End, locks.None)
	}
	return list
}

// locksInLocked returns h's locks in r, sorted by offset.
func (h *fileOwner) locksInLocked(r locks.Range) (list []lockPiece) {
	var parts [2][]lockPiece
	for i, p := range h.rangesByKind {
		p.Ranges(func(s locks.Range) bool {
			s.Start, s.End = max(s.Start, r.Start), min(s.End, r.End)
			if s.Start <= s.End {
				parts[i] = append(parts[i], lockPiece{s, locks.KindOf(i == 1)})
			}
			return true
		})
	}
	for len(parts[0])+len(parts[1]) > 0 {
		i := 0
		if len(parts[0]) == 0 || len(parts[1]) > 0 && parts[1][0].Start < parts[0][0].Start {
			i = 1
		}
		list, parts[i] = append(list, parts[i][0]), parts[i][1:]
	}
	return list
}

// holdsLocked reports whether h has locked all of p with p's kind.
func (h *fileOwner) holdsLocked(p lockPiece) bool {
	next := p.Start
	for _, have := range h.locksInLocked(p.Range) {
		if have.kind != p.kind || have.Start != next {
			return false
		}
		if have.End == p.End {
			return true
		}
		next = have.End + 1
	}
	return false
}

// markUncertain records that the server may have a lock that is not in the
// table.
func (c *Client) markUncertain(h *fileOwner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.uncertain = true
}

// lastRequest returns the process and the credential from h's last request.
func (c *Client) lastRequest(h *fileOwner) (pid uint32, cred rpcmsg.Cred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.pid, h.cred
}

// wireLock returns the wire form for an owner and a range.
func (c *Client) wireLock(h *fileOwner, r locks.Range) nlm4.Lock {
	l := nlm4.Lock{
		Caller: []byte(c.name), Handle: h.file.handle, Owner: h.identity.oh, SVID: h.identity.svid,
		Offset: r.Start, Length: r.End - r.Start + 1,
	}
	if r.End == locks.ToEnd {
		l.Length = 0
	}
	return l
}

// newCookie returns a cookie: Linux accepts at most 32 bytes.
func (c *Client) newCookie() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cookie++
	return binary.BigEndian.AppendUint32(nil, c.cookie)
}
