package bridge

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// fairQueue shares out the number of calls that the server allows under way. A
// client may have up to share times as many calls as are free. A single client
// thus gets all but a quarter. Several clients together always get less than
// all, so that a new client finds free calls even if the others' calls are
// slow. The same rule holds for the clients of one party together, with
// partyShare. Among waiting clients, the party with the fewest calls under way
// comes first, and within the party the client with the fewest.
type fairQueue struct {
	limit func() int // nil: no limit

	mu      sync.Mutex
	running int
	clients map[*oncrpc.Peer]*client  // with running or waiting calls
	parties map[fairshare.Name]*party // of these clients
	waiting []*client                 // with waiting calls
	idle    []*client
}

// share is how many calls a client may have for each free call; partyShare is
// the same for a party.
const (
	share      = 3
	partyShare = 7
)

// A client is one connection.
type client struct {
	party   *party
	running int
	queue   []chan struct{} // of waiting calls, closed when their turn comes
}

// A party is all clients of one origin.
type party struct {
	of               fairshare.Name
	clients, running int
}

// acquire waits for a call's turn. The error is the cause of ctx's end.
func (t *fairQueue) acquire(ctx context.Context, peer *oncrpc.Peer) error {
	if t.limit == nil {
		return nil
	}
	t.mu.Lock()
	c := t.clientLocked(peer)
	if len(t.waiting) == 0 && t.fitsLocked(c) {
		t.startLocked(c)
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	if c.queue = append(c.queue, turn); len(c.queue) == 1 {
		t.waiting = append(t.waiting, c)
	}
	t.admitLocked()
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(c.queue, turn); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		t.restLocked(peer, c)
	} else {
		t.endLocked(peer, c)
	}
	return context.Cause(ctx)
}

// give ends a call that had its turn.
func (t *fairQueue) give(peer *oncrpc.Peer) {
	if t.limit == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(peer, t.clients[peer])
}

func (t *fairQueue) clientLocked(peer *oncrpc.Peer) *client {
	c := t.clients[peer]
	if c != nil {
		return c
	}
	if last := len(t.idle) - 1; last >= 0 {
		c, t.idle = t.idle[last], t.idle[:last]
	} else {
		c = new(client)
	}
	if t.clients == nil {
		t.clients, t.parties = make(map[*oncrpc.Peer]*client), make(map[fairshare.Name]*party)
	}
	t.clients[peer] = c
	c.party = t.partyLocked(peer)
	c.party.clients++
	return c
}

func (t *fairQueue) partyLocked(peer *oncrpc.Peer) *party {
	var of fairshare.Name
	if peer != nil {
		of = fairshare.PartyOfIP(peer.Addr.Addr())
	}
	p := t.parties[of]
	if p == nil {
		p = &party{of: of}
		t.parties[of] = p
	}
	return p
}

// fitsLocked reports whether c may start another call.
func (t *fairQueue) fitsLocked(c *client) bool {
	free := t.limit() - t.running
	return free > 0 && c.running < share*free && c.party.running < partyShare*free
}

func (t *fairQueue) startLocked(c *client) {
	c.running++
	c.party.running++
	t.running++
}

func (t *fairQueue) endLocked(peer *oncrpc.Peer, c *client) {
	c.running--
	c.party.running--
	t.running--
	t.restLocked(peer, c)
	t.admitLocked()
}

// restLocked removes a client without waiting calls from the waiting list, and
// forgets a client without any calls.
func (t *fairQueue) restLocked(peer *oncrpc.Peer, c *client) {
	if len(c.queue) > 0 {
		return
	}
	t.waitNoMoreLocked(c)
	if c.running == 0 {
		delete(t.clients, peer)
		if c.party.clients--; c.party.clients == 0 {
			delete(t.parties, c.party.of)
		}
		c.party = nil
		t.idle = append(t.idle, c)
	}
}

func (t *fairQueue) waitNoMoreLocked(c *client) {
	if i := slices.Index(t.waiting, c); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}

// admitLocked starts the calls whose turn it is.
func (t *fairQueue) admitLocked() {
	for c := t.nextLocked(); c != nil; c = t.nextLocked() {
		t.startLocked(c)
		close(c.queue[0])
		if c.queue = slices.Delete(c.queue, 0, 1); len(c.queue) == 0 {
			t.waitNoMoreLocked(c)
		}
	}
}

// nextLocked returns the client that may start the next call, or nil.
func (t *fairQueue) nextLocked() (next *client) {
	for _, c := range t.waiting {
		if t.fitsLocked(c) && (next == nil || cmp.Or(cmp.Compare(c.party.running, next.party.running), cmp.Compare(c.running, next.running)) < 0) {
			next = c
		}
	}
	return next
}
