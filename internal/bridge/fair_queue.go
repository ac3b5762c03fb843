package bridge

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// fairQueue distributes the number of calls that the server allows in flight. A
// client may have up to clientShare times as many calls as are free. A single
// client thus gets all but a quarter. Several clients together always get less than
// all, so that a new client finds free calls even if the others' calls are slow.
// The same rule applies to the clients in one group together, with groupShare.
// Among waiting clients, the group with the fewest calls in flight is first, and
// within the group the client with the fewest.
type fairQueue struct {
	limit func() int // nil: no limit

	mu      sync.Mutex
	running int
	clients map[*oncrpc.Peer]*queuedClient  // with running or waiting calls
	groups  map[fairshare.Name]*clientGroup // these clients' groups
	waiting []*queuedClient                 // with waiting calls
	idle    []*queuedClient
}

// clientShare is the number of calls that a client may have for each free call;
// groupShare is the same for a client group.
const (
	clientShare = 3
	groupShare  = 7
)

// A queuedClient is one client connection.
type queuedClient struct {
	group   *clientGroup
	running int
	queue   []chan struct{} // one channel per waiting call, closed when its turn comes
}

// A clientGroup is all clients with one origin (package fairshare).
type clientGroup struct {
	name             fairshare.Name
	clients, running int
}

// acquire waits for a call's turn. The error is ctx's cause.
func (t *fairQueue) acquire(ctx context.Context, peer *oncrpc.Peer) error {
	if t.limit == nil {
		return nil
	}
	t.mu.Lock()
	c := t.clientLocked(peer)
	if len(t.waiting) == 0 && t.mayStartLocked(c) {
		t.startLocked(c)
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	if c.queue = append(c.queue, turn); len(c.queue) == 1 {
		t.waiting = append(t.waiting, c)
	}
	t.startWaitingLocked()
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
		t.removeIdleLocked(peer, c)
	} else {
		t.finishLocked(peer, c)
	}
	return context.Cause(ctx)
}

// release records the end of a call that had its turn.
func (t *fairQueue) release(peer *oncrpc.Peer) {
	if t.limit == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finishLocked(peer, t.clients[peer])
}

func (t *fairQueue) clientLocked(peer *oncrpc.Peer) *queuedClient {
	c := t.clients[peer]
	if c != nil {
		return c
	}
	if last := len(t.idle) - 1; last >= 0 {
		c, t.idle = t.idle[last], t.idle[:last]
	} else {
		c = new(queuedClient)
	}
	if t.clients == nil {
		t.clients, t.groups = make(map[*oncrpc.Peer]*queuedClient), make(map[fairshare.Name]*clientGroup)
	}
	t.clients[peer] = c
	c.group = t.groupLocked(peer)
	c.group.clients++
	return c
}

func (t *fairQueue) groupLocked(peer *oncrpc.Peer) *clientGroup {
	var of fairshare.Name
	if peer != nil {
		of = fairshare.PartyOfIP(peer.Addr.Addr())
	}
	p := t.groups[of]
	if p == nil {
		p = &clientGroup{name: of}
		t.groups[of] = p
	}
	return p
}

// mayStartLocked reports whether c may start another call.
func (t *fairQueue) mayStartLocked(c *queuedClient) bool {
	free := t.limit() - t.running
	return free > 0 && c.running < clientShare*free && c.group.running < groupShare*free
}

func (t *fairQueue) startLocked(c *queuedClient) {
	c.running++
	c.group.running++
	t.running++
}

func (t *fairQueue) finishLocked(peer *oncrpc.Peer, c *queuedClient) {
	c.running--
	c.group.running--
	t.running--
	t.removeIdleLocked(peer, c)
	t.startWaitingLocked()
}

// removeIdleLocked removes a client without waiting calls from the waiting list,
// and drops a client without any calls.
func (t *fairQueue) removeIdleLocked(peer *oncrpc.Peer, c *queuedClient) {
	if len(c.queue) > 0 {
		return
	}
	t.stopWaitingLocked(c)
	if c.running == 0 {
		delete(t.clients, peer)
		if c.group.clients--; c.group.clients == 0 {
			delete(t.groups, c.group.name)
		}
		c.group = nil
		t.idle = append(t.idle, c)
	}
}

func (t *fairQueue) stopWaitingLocked(c *queuedClient) {
	if i := slices.Index(t.waiting, c); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
}

// startWaitingLocked starts the calls whose turn it is.
func (t *fairQueue) startWaitingLocked() {
	for c := t.nextClientLocked(); c != nil; c = t.nextClientLocked() {
		t.startLocked(c)
		close(c.queue[0])
		if c.queue = slices.Delete(c.queue, 0, 1); len(c.queue) == 0 {
			t.stopWaitingLocked(c)
		}
	}
}

// nextClientLocked returns the client that may start the next call, or nil.
func (t *fairQueue) nextClientLocked() (next *queuedClient) {
	for _, c := range t.waiting {
		if t.mayStartLocked(c) && (next == nil || cmp.Or(cmp.Compare(c.group.running, next.group.running), cmp.Compare(c.running, next.running)) < 0) {
			next = c
		}
	}
	return next
}
