package bridge

import (
	"context"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// turns share out the calls that the server lets be under way at a time. A client
// has up to share times as many as are free: all but a quarter where it is alone,
// and where others are there too always less than all, so that who comes anew
// finds something, however slow the calls of the others are. Of those who wait
// the client with the fewest calls under way comes first.
type turns struct {
	limit func() int // nil: there is none

	mu      sync.Mutex
	running int
	clients map[*oncrpc.Peer]*client // with calls that run or wait
	waiting []*client                // with calls that wait
	spare   []*client
}

// share is what a client may have for each call that nobody has.
const share = 3

// A client is one connection.
type client struct {
	running int
	queue   []chan struct{} // of calls that wait, closed when their turn comes
}

// take waits for a call's turn. The error is the cause of ctx's end.
func (t *turns) take(ctx context.Context, peer *oncrpc.Peer) error {
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
func (t *turns) give(peer *oncrpc.Peer) {
	if t.limit == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(peer, t.clients[peer])
}

func (t *turns) clientLocked(peer *oncrpc.Peer) *client {
	c := t.clients[peer]
	if c != nil {
		return c
	}
	if last := len(t.spare) - 1; last >= 0 {
		c, t.spare = t.spare[last], t.spare[:last]
	} else {
		c = new(client)
	}
	if t.clients == nil {
		t.clients = make(map[*oncrpc.Peer]*client)
	}
	t.clients[peer] = c
	return c
}

// fitsLocked tells whether c may have one more call under way.
func (t *turns) fitsLocked(c *client) bool {
	free := t.limit() - t.running
	return free > 0 && c.running < share*free
}

func (t *turns) startLocked(c *client) {
	c.running++
	t.running++
}

func (t *turns) endLocked(peer *oncrpc.Peer, c *client) {
	c.running--
	t.running--
	t.restLocked(peer, c)
	t.admitLocked()
}

// restLocked forgets a client that has nothing to wait for, or at all.
func (t *turns) restLocked(peer *oncrpc.Peer, c *client) {
	if len(c.queue) > 0 {
		return
	}
	t.waitNoMoreLocked(c)
	if c.running == 0 {
		delete(t.clients, peer)
		t.spare = append(t.spare, c)
	}
}

func (t *turns) waitNoMoreLocked(c *client) {
	if i := slices.Index(t.waiting, c); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}

// admitLocked lets those go whose turn it is.
func (t *turns) admitLocked() {
	for len(t.waiting) > 0 {
		c := slices.MinFunc(t.waiting, func(a, b *client) int { return a.running - b.running })
		if !t.fitsLocked(c) {
			return
		}
		t.startLocked(c)
		close(c.queue[0])
		if c.queue = slices.Delete(c.queue, 0, 1); len(c.queue) == 0 {
			t.waitNoMoreLocked(c)
		}
	}
}
