package lockclient

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// whole is a whole file, wherever its end will be.
var whole = locks.Range{End: locks.ToEnd}

// A table holds the locks that the server has given to this mount, and the
// waiters. It is guarded by the lock of the Client.
type table struct {
	left    *leftovers // nil: the locks are listed nowhere
	name    string
	files   map[string]*file // by handle: files with locks or requests
	ids     map[Owner]*identity
	numbers map[int32]bool // SVIDs in use
	next    int32          // SVID
	cookie  uint32
}

// A file is a file of the server with locks or requests of this mount.
type file struct {
	handle  []byte
	object  locks.Object
	holders map[Owner]*holder
	queue   []*waiter // in the order of their requests
}

// A holder is an owner of locks of one file.
type holder struct {
	file  *file
	owner Owner
	id    *identity
	locks *locks.Owner
	parts [2]*locks.Part // shared and exclusive
	pid   uint32         // of the last request
	cred  rpcmsg.Cred    // of the last request
	users int            // requests under way
	turn  chan struct{}  // holds an element during a call for the holder
	line  string         // in leftovers; guarded by the turn

	// unsure is set if the server may have a lock that locks has not. The line then
	// stays for the next Client.
	unsure bool
}

// An identity is how the server tells an Owner from others. Servers tell them by
// the SVID and the client's address, whichever process of the client calls. The
// numbers of a Client therefore begin at random.
type identity struct {
	svid    int32
	oh      []byte
	holders map[*holder]bool
	waits   map[*waiter]bool
}

// locksLocked reports whether the owner has locks of any file.
func (id *identity) locksLocked() bool {
	for h := range id.holders {
		if h.locks.Len() > 0 {
			return true
		}
	}
	return false
}

func newTable(name string, first int32) table {
	return table{
		name: name, files: make(map[string]*file), ids: make(map[Owner]*identity), numbers: make(map[int32]bool),
		next: first & (1<<31 - 1),
	}
}

// enterLocked returns the holder for a request, which counts as a user of it.
func (t *table) enterLocked(handle []byte, o Owner) *holder {
	f := t.files[string(handle)]
	if f == nil {
		f = &file{handle: append([]byte(nil), handle...), holders: make(map[Owner]*holder)}
		t.files[string(handle)] = f
	}
	h := f.holders[o]
	if h == nil {
		h = &holder{file: f, owner: o, id: t.identityLocked(o), turn: make(chan struct{}, 1)}
		h.locks = f.object.NewOwner(h)
		h.parts = [2]*locks.Part{h.locks.NewPart(), h.locks.NewPart()}
		h.id.holders[h] = true
		f.holders[o] = h
	}
	h.users++
	return h
}

func (t *table) identityLocked(o Owner) *identity {
	id := t.ids[o]
	if id == nil {
		for t.next = max(1, t.next); t.numbers[t.next]; t.next = max(1, (t.next+1)&(1<<31-1)) {
		}
		id = &identity{
			svid: t.next, oh: fmt.Appendf(nil, "%d@%s", t.next, t.name), holders: make(map[*holder]bool), waits: make(map[*waiter]bool),
		}
		t.next = (t.next + 1) & (1<<31 - 1)
		t.ids[o] = id
		t.numbers[id.svid] = true
	}
	return id
}

// leaveLocked ends a use of a holder, and forgets what is no longer needed.
func (t *table) leaveLocked(h *holder) {
	h.users--
	if h.users > 0 || h.locks.Len() > 0 {
		return
	}
	if !h.unsure {
		t.left.remove(h.line)
	}
	delete(h.file.holders, h.owner)
	if len(h.file.holders) == 0 {
		delete(t.files, string(h.file.handle))
	}
	if delete(h.id.holders, h); len(h.id.holders) == 0 {
		delete(t.ids, h.owner)
		delete(t.numbers, h.id.svid)
	}
}

// leave ends a request of a holder.
func (c *Client) leave(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(h)
	c.requests.Done()
}

// Holds reports whether an owner has locks of a file, or requests under way.
func (c *Client) Holds(handle []byte, o Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[string(handle)]
	return f != nil && f.holders[o] != nil
}

// use returns the holder of an owner's locks of a file, or nil, also once the
// Client is closed. It begins a request, which ends with leave.
func (c *Client) use(handle []byte, o Owner) *holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[string(handle)]; c.closed || f == nil || f.holders[o] == nil {
		return nil
	}
	c.requests.Add(1)
	return c.enterLocked(handle, o)
}

// holders returns all holders with locks. The caller must call unhold for each.
func (c *Client) holders() (all []*holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		for _, h := range f.holders {
			if h.locks.Len() > 0 {
				h.users++
				all = append(all, h)
			}
		}
	}
	return all
}

// unhold ends the use of a holder.
func (c *Client) unhold(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(h)
}

// locked reports whether there are locks.
func (c *Client) locked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if f.object.Locked() {
			return true
		}
	}
	return false
}

// setLocked records that the server has given a lock.
func (c *Client) setLocked(h *holder, r locks.Range, exclusive bool) {
	h.parts[index(exclusive)].Lock(r, exclusive)
}

func index(exclusive bool) int {
	if exclusive {
		return 1
	}
	return 0
}

// A piece is a range of a file, and how one owner has locked it.
type piece struct {
	locks.Range
	kind locks.Kind
}

// pieces returns the locks of h within r, and, with gaps, what is not locked.
func (c *Client) pieces(h *holder, r locks.Range, gaps bool) (list []piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(from, to uint64, kind locks.Kind) {
		if from <= to && (gaps || kind != locks.None) {
			list = append(list, piece{locks.Range{Start: from, End: to}, kind})
		}
	}
	at, end := r.Start, false
	for _, p := range h.lockedLocked(r) {
		if p.Start > at {
			add(at, p.Start-1, locks.None)
		}
		add(p.Start, p.End, p.kind)
		at, end = p.End+1, p.End == locks.ToEnd
	}
	if !end {
		add(at, r.End, locks.None)
	}
	return list
}

// lockedLocked returns the locks of h within r, by offset.
func (h *holder) lockedLocked(r locks.Range) (list []piece) {
	var parts [2][]piece
	for i, p := range h.parts {
		p.Ranges(func(s locks.Range) bool {
			s.Start, s.End = max(s.Start, r.Start), min(s.End, r.End)
			if s.Start <= s.End {
				parts[i] = append(parts[i], piece{s, locks.KindOf(i == 1)})
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

// holdsLocked reports whether h has locked all of p as p says.
func (h *holder) holdsLocked(p piece) bool {
	at := p.Start
	for _, have := range h.lockedLocked(p.Range) {
		if have.kind != p.kind || have.Start != at {
			return false
		}
		if have.End == p.End {
			return true
		}
		at = have.End + 1
	}
	return false
}

// doubt records that the server may have a lock that the table has not.
func (c *Client) doubt(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.unsure = true
}

// last returns the process of the last request of h, and its credential.
func (c *Client) last(h *holder) (pid uint32, cred rpcmsg.Cred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.pid, h.cred
}

// lock returns the wire form of an owner and a range.
func (c *Client) lock(h *holder, r locks.Range) nlm4.Lock {
	l := nlm4.Lock{
		Caller: []byte(c.name), Handle: h.file.handle, Owner: h.id.oh, SVID: h.id.svid,
		Offset: r.Start, Length: r.End - r.Start + 1,
	}
	if r.End == locks.ToEnd {
		l.Length = 0
	}
	return l
}

// newCookie returns a cookie: Linux takes at most 32 bytes.
func (c *Client) newCookie() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cookie++
	return binary.BigEndian.AppendUint32(nil, c.cookie)
}
