package replay

import (
	"container/heap"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// An entry is a running or executed call. Entries are recycled together with their
// replies' memory.
type entry struct {
	key    cacheKey
	origin origin
	alike  *entry // the next older call with the same key, from another connection
	retry  *retry // a running call's newest waiting retry

	// The fields below are set for executed calls.
	reply        savedReply
	savedAt      time.Time
	party        *party
	older, newer *entry // neighbors in the ring of all entries
	next         *entry // the party's next newer entry
}

// finishRetry completes the retry, if there is one.
func (e *entry) finishRetry(end retryResult) {
	if e.retry != nil {
		e.retry.result <- end
		e.retry = nil
	}
}

// memorySize returns the memory that the entry uses, in bytes.
func (e *entry) memorySize() int64 { return entryCost + int64(cap(e.reply.bytes)) }

// A replyStore keeps executed calls in the order of their replies, overall and per party.
type replyStore struct {
	replies int
	bytes   int64
	ring    entry // ring.newer is the oldest entry
	byName  map[fairshare.Name]*party
	parties parties
}

// A party is one party's share in the store.
type party struct {
	name           fairshare.Name
	bytes          int64
	oldest, newest *entry
	heapIndex      int // in parties
}

func (s *replyStore) init() {
	s.ring.older, s.ring.newer = &s.ring, &s.ring
	s.byName = make(map[fairshare.Name]*party)
}

// oldestEntry returns the oldest entry, or nil.
func (s *replyStore) oldestEntry() *entry {
	if s.ring.newer == &s.ring {
		return nil
	}
	return s.ring.newer
}

// add adds e as the newest entry.
func (s *replyStore) add(e *entry) {
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
	s.addBytes(p, e.memorySize())
}

// remove removes e, which must be its party's oldest entry.
func (s *replyStore) remove(e *entry) {
	p := e.party
	p.oldest = e.next
	e.older.newer, e.newer.older = e.newer, e.older
	s.replies--
	s.addBytes(p, -e.memorySize())
	if p.oldest == nil {
		heap.Remove(&s.parties, p.heapIndex)
		delete(s.byName, p.name)
	}
}

// addBytes adds n bytes to p's share.
func (s *replyStore) addBytes(p *party, n int64) {
	s.bytes += n
	p.bytes += n
	heap.Fix(&s.parties, p.heapIndex)
}

// parties is a heap (package container/heap) of the parties, with the largest share
// first.
type parties []*party

func (h parties) Len() int           { return len(h) }
func (h parties) Less(i, j int) bool { return h[i].bytes > h[j].bytes }

func (h parties) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *parties) Push(x any) {
	p := x.(*party)
	p.heapIndex = len(*h)
	*h = append(*h, p)
}

func (h *parties) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
