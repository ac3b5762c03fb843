package rpcsec

import (
	"container/heap"
	"container/list"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A handle names a context.
type handle [handleLen]byte

// An established is a context of the server's. It belongs to the server, not to
// the connection on which it was made.
type established struct {
	gss.Context
	handle    handle
	principal gss.Principal
	name      string // of the principal, for people and the replay cache
	end       time.Time
	seqs      sequence
	user      atomic.Uint64 // see note
	gone      atomic.Bool   // removed from the table
	back      backNumbers

	// The table's lock guards the fields below.
	calls int // under way
	owner *party
	place *list.Element // in owner.contexts; nil: removed from the table
}

// mapped is set in established.user if the principal has a user.
const mapped = 1 << 32

// note keeps the user that a call had, for lists.
func (k *established) note(who *rpcmsg.Cred) {
	user := uint64(who.UID)
	if !who.Anonymous {
		user |= mapped
	}
	if k.user.Load() != user { // a shared line of memory is not written for each call
		k.user.Store(user)
	}
}

// A table has the contexts of a server, up to a bound. Above that, the party with
// the most contexts loses the one that no call has used for longest; if calls use
// all of its contexts, another party does.
type table struct {
	max int

	mu       sync.Mutex
	contexts map[handle]*established
	parties  map[fairshare.Name]*party
	largest  parties
	evicted  uint64
	expired  uint64
}

// A party is the contexts that were made from one address.
type party struct {
	name     fairshare.Name
	contexts *list.List // of *established, the least recently used first
	place    int        // in table.largest
}

func newTable(limit int) *table {
	return &table{max: limit, contexts: make(map[handle]*established), parties: make(map[fairshare.Name]*party)}
}

// add enters a context under a new handle. It returns false if the table is full
// of contexts in use.
func (t *table) add(k *established, by fairshare.Name) bool {
	_, _ = rand.Read(k.handle[:]) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.parties[by]; p != nil {
		t.expireLocked(p)
	}
	if len(t.contexts) >= t.max && !t.evictLocked() {
		return false
	}
	p := t.parties[by]
	if p == nil {
		p = &party{name: by, contexts: list.New()}
		t.parties[by] = p
		heap.Push(&t.largest, p)
	}
	k.owner, k.place = p, p.contexts.PushBack(k)
	heap.Fix(&t.largest, p.place)
	t.contexts[k.handle] = k
	return true
}

// expireLocked removes contexts of a party that are of no more use, from those that
// no call has used for longest on (RFC 2203, Section 5.4).
func (t *table) expireLocked(p *party) {
	now := time.Now()
	for range expires {
		e := p.contexts.Front()
		if e == nil {
			return
		}
		k := e.Value.(*established)
		if k.calls > 0 || !now.After(k.end) {
			return
		}
		t.removeLocked(k)
		t.expired++
	}
}

// evictLocked removes a context that is not in use.
func (t *table) evictLocked() bool {
	for _, p := range t.largest { // the first has the most; if that has none to lose, the order matters little
		for e := p.contexts.Front(); e != nil; e = e.Next() {
			if k := e.Value.(*established); k.calls == 0 {
				t.removeLocked(k)
				t.evicted++
				return true
			}
		}
	}
	return false
}

// removeLocked removes a context, unless it has been removed.
func (t *table) removeLocked(k *established) {
	if k.place == nil {
		return
	}
	p := k.owner
	p.contexts.Remove(k.place)
	k.place = nil
	k.gone.Store(true)
	delete(t.contexts, k.handle)
	heap.Fix(&t.largest, p.place)
	if p.contexts.Len() == 0 {
		heap.Remove(&t.largest, p.place)
		delete(t.parties, p.name)
	}
}

// take returns the context of a handle, for a call that must give it back, or
// nil.
func (t *table) take(h []byte) *established {
	if len(h) != handleLen {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.contexts[handle(h)]
	if k != nil {
		k.calls++
		k.owner.contexts.MoveToBack(k.place)
	}
	return k
}

// give ends the use of a context by a call.
func (t *table) give(k *established) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.calls--
}

// remove forgets a context. Calls that have it go on. It returns false if the
// context was gone.
func (t *table) remove(k *established) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := k.place != nil
	t.removeLocked(k)
	return was
}

// held returns how many contexts there are, and how many add has removed.
func (t *table) held() (n int, evicted, expired uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.contexts), t.evicted, t.expired
}

// list returns up to limit contexts, those of the party with the most first, and
// how many there are.
func (t *table) list(limit int) (list []ContextInfo, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.largest {
		for e := p.contexts.Back(); e != nil && len(list) < limit; e = e.Prev() {
			k := e.Value.(*established)
			user := k.user.Load()
			list = append(list, ContextInfo{
				Principal: k.name, Client: p.name.String(), Mechanism: k.Mechanism(), Expires: k.Expires(),
				UID: uint32(user), Mapped: user&mapped != 0, Calls: k.calls,
			})
		}
	}
	return list, len(t.contexts)
}

// parties is a heap (package container/heap) of the parties, the one with the
// most contexts first.
type parties []*party

func (h parties) Len() int           { return len(h) }
func (h parties) Less(i, j int) bool { return h[i].contexts.Len() > h[j].contexts.Len() }
func (h parties) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *parties) Push(x any) {
	p := x.(*party)
	p.place = len(*h)
	*h = append(*h, p)
}

func (h *parties) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
