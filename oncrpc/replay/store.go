package replay

import (
	"container/heap"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// An entry is a running or executed call. Entries are recycled together
// with the memory of their replies.
type entry struct {
	key   cacheKey
	retry *retry // the newest waiting retry of a running call

	// The fields below are those of an executed call.
	reply        []byte
	since        time.Time
	party        *party
	older, newer *entry // neighbours in the ring of all
	next         *entry // the next newer entry of the party
}

// finish ends the retry, if there is one.
func (e *entry) finish(end retryEnd) {
	if e.retry != nil {
		e.retry.end <- end
		e.retry = nil
	}
}

// size returns the bytes that the entry takes.
func (e *entry) size() int64 { return entryCost + int64(cap(e.reply)) }

// A store keeps executed calls in the order of their replies, overall and
// for each party.
type store struct {
	replies int
	bytes   int64
	ring    entry // ring.newer is the oldest entry
	byName  map[fairshare.Name]*party
	parties parties
}

// A party is the share of one party in the store.
type party struct {
	name           fairshare.Name
	bytes          int64
	oldest, newest *entry
	place          int // in parties
}

func (s *store) init() {
	s.ring.older, s.ring.newer = &s.ring, &s.ring
	s.byName = make(map[fairshare.Name]*party)
}

// oldest returns the oldest entry, or nil.
func (s *store) oldest() *entry {
	if s.ring.newer == &s.ring {
		return nil
	}
	return s.ring.newer
}

// add makes e the newest entry.
func (s *store) add(e *entry) {
	name := fairshare.PartyOfIP(e.key.client)
	p := s.byName[name]
	if p == nil {
		p = &party{name: name}
		s.byName[name] = p
		heap.Push(&s.parties, p)
	}
	if p.oldest == nil {
		p.oldest = e
	} else {
		p.newest.next = e
	}
	p.newest, e.party = e, p
	e.older, e.newer = s.ring.older, &s.ring
	e.older.newer, e.newer.older = e, e
	s.replies++
	s.account(p, e.size())
}

// remove removes e, which must be the oldest entry of its party.
func (s *store) remove(e *entry) {
	p := e.party
	p.oldest = e.next
	e.older.newer, e.newer.older = e.newer, e.older
	s.replies--
	s.account(p, -e.size())
	if p.oldest == nil {
		heap.Remove(&s.parties, p.place)
		delete(s.byName, p.name)
	}
}

// account adds n bytes to the share of p.
func (s *store) account(p *party, n int64) {
	s.bytes += n
	p.bytes += n
	heap.Fix(&s.parties, p.place)
}

// parties is a heap (package container/heap) of the parties, the largest
// share first.
type parties []*party

func (h parties) Len() int           { return len(h) }
func (h parties) Less(i, j int) bool { return h[i].bytes > h[j].bytes }

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
