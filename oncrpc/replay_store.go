package oncrpc

import (
	"container/heap"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A replayEntry is a running or executed call. Entries are recycled together
// with the memory of their replies.
type replayEntry struct {
	key   replayKey
	retry *replayRetry // the newest waiting retry of a running call

	// The fields below are those of an executed call.
	reply        []byte
	since        time.Time
	party        *replayParty
	older, newer *replayEntry // neighbours in the ring of all
	next         *replayEntry // the next newer entry of the party
}

// finish ends the retry, if there is one.
func (e *replayEntry) finish(end replayEnd) {
	if e.retry != nil {
		e.retry.end <- end
		e.retry = nil
	}
}

// size returns the bytes that the entry takes.
func (e *replayEntry) size() int64 { return replayCost + int64(cap(e.reply)) }

// A replayStore keeps executed calls in the order of their replies, overall and
// for each party.
type replayStore struct {
	replies int
	octets  int64
	ring    replayEntry // ring.newer is the oldest entry
	byName  map[fairshare.Name]*replayParty
	parties replayParties
}

// A replayParty is the share of one party in the store.
type replayParty struct {
	name           fairshare.Name
	octets         int64
	oldest, newest *replayEntry
	place          int // in replayParties
}

func (s *replayStore) init() {
	s.ring.older, s.ring.newer = &s.ring, &s.ring
	s.byName = make(map[fairshare.Name]*replayParty)
}

// oldest returns the oldest entry, or nil.
func (s *replayStore) oldest() *replayEntry {
	if s.ring.newer == &s.ring {
		return nil
	}
	return s.ring.newer
}

// add makes e the newest entry.
func (s *replayStore) add(e *replayEntry) {
	name := fairshare.PartyOfIP(e.key.client)
	p := s.byName[name]
	if p == nil {
		p = &replayParty{name: name}
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
func (s *replayStore) remove(e *replayEntry) {
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
func (s *replayStore) account(p *replayParty, n int64) {
	s.octets += n
	p.octets += n
	heap.Fix(&s.parties, p.place)
}

// replayParties is a heap (package container/heap) of the parties, the largest
// share first.
type replayParties []*replayParty

func (h replayParties) Len() int           { return len(h) }
func (h replayParties) Less(i, j int) bool { return h[i].octets > h[j].octets }

func (h replayParties) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *replayParties) Push(x any) {
	p := x.(*replayParty)
	p.place = len(*h)
	*h = append(*h, p)
}

func (h *replayParties) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
