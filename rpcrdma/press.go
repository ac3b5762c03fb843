package rpcrdma

import (
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A press looks at all connections while calls wait for memory: a peer that has
// some and does not move must not keep it from others for as long as it may at
// other times.
type press struct {
	srv   *Server
	timer *time.Timer

	mu      sync.Mutex
	waiting int // calls
	round   uint64
}

func (p *press) init(s *Server) {
	p.srv = s
	p.timer = time.AfterFunc(pressTime, p.look)
	p.timer.Stop()
}

// begin notes a call that waits, and end that it does not any more.
func (p *press) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting++; p.waiting == 1 {
		p.round += 2 // what was seen before is not of the last period
		p.timer.Reset(0)
	}
}

func (p *press) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.timer.Stop()
	}
}

// look ends the connections that have not moved since the last look.
func (p *press) look() {
	p.mu.Lock()
	p.round++
	round, due := p.round, p.waiting > 0
	if due {
		p.timer.Reset(pressTime)
	}
	p.mu.Unlock()
	if !due {
		return
	}
	s := p.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.stands(round) {
			c.abort(errStalled)
		}
	}
}

// A sight is what a look has found of a connection.
type sight struct {
	round   uint64
	done    uint64 // batches of posted work
	in, out uint64 // octets, if the connection has a meter
}

// stands tells whether a connection has posted work, and has neither completed
// any nor moved many octets since the look before.
func (c *conn) stands(round uint64) bool {
	if !c.isReady() || c.rc == nil {
		return false
	}
	now := sight{round: round}
	if m, ok := c.rc.(rdma.Meter); ok {
		now.in, now.out = m.Traffic()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now.done = c.watch.done
	before := c.seen
	c.seen = now
	moved := now.done != before.done || now.in+now.out >= before.in+before.out+bulk
	return before.round+1 == round && !moved && c.watch.posted != now.done
}
