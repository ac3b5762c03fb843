package nfsserver

import (
	"sync"
	"sync/atomic"
	"time"
)

// A patience bounds what a file system takes of the server when its storage
// does not answer. The calls that wait for it then wait on, as with knfsd: to
// answer one early would give nothing back, for it stays in the kernel, and the
// client would send it again, to wait there twice. But where many wait, the
// oldest for long, further ones are NFS3ERR_JUKEBOX before anything of them is
// done. That is right for every procedure, and clients come again by
// themselves, until they find a place; nothing is done twice. Other exports do
// not notice, whatever the transport.
//
// Calls are counted by generations: a new one begins when all calls of the last
// but one have ended, so that nobody has to look at a clock before there are
// many.
type patience struct {
	generation atomic.Uint32
	running    [2]atomic.Int64 // calls of the even and of the odd ones

	mu    sync.Mutex
	since time.Time // when the generation began, if there were many then
}

// begin lets a call begin, and returns what counts it until its end. Nil: it is
// to come again later.
func (p *patience) begin() *atomic.Int64 {
	if p.running[0].Load()+p.running[1].Load() >= maxWaiting && p.stuck() {
		return nil
	}
	n := &p.running[p.generation.Load()&1]
	n.Add(1)
	return n
}

// stuck tells whether a call has been running for longer than stuckTime.
func (p *patience) stuck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.running[(p.generation.Load()+1)&1].Load() == 0 {
		p.generation.Add(1)
		p.since = now
	}
	return now.Sub(p.since) > stuckTime
}
