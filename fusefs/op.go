package fusefs

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An op is one request of the kernel under way, and the context of what it waits
// for. It ends before its time only as ops says; the calls that it has made then go
// on.
type op struct {
	m      *Mount
	from   fuse.Caller
	unique uint64          // the kernel's number
	cancel <-chan struct{} // closed when the process got a signal, or the mount went away
	place  int             // in ops
	dirs   [2]*node        // in which it changes names; nil: none
	gone   chan struct{}
	calls  calls

	// Of ops, and under its lock.
	closes   bool    // it is FLUSH, for which an exiting process gets no signal
	polls    int     // of watch since it was interrupted
	answered bool    // the kernel has been told that it was interrupted
	touched  []*node // what the server may change

	// Of who makes the request: what a lost answer says that the kernel has.
	referred []*node
	opened   uint64    // number of a file or directory; 0: none
	made     givenName // that the server may have
}

// A givenName is one that a request gives to an object.
type givenName struct {
	dir  *node
	name string
}

// calls is the context of an op's calls.
type calls struct {
	context.Context
	ended chan struct{}
}

// Done implements context.Context.
func (c *calls) Done() <-chan struct{} { return c.ended }

// Err implements context.Context.
func (c *calls) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// changes notes in which directories the request changes names.
func (o *op) changes(dirs ...*node) {
	copy(o.dirs[:], dirs)
	for _, d := range dirs {
		d.changing(+1)
	}
	o.mayChange(dirs...)
}

// who returns who made the request.
func (o *op) who() *caller { return o.m.callers.of(&o.from) }

// c returns the Client that calls in the name of who made the request.
func (o *op) c() *nfsclient.Client { return o.who().client }

// Deadline implements context.Context.
func (o *op) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (o *op) Done() <-chan struct{} { return o.gone }

// Value implements context.Context.
func (o *op) Value(key any) any {
	if key == (nfsclient.Calls{}) {
		return &o.calls
	}
	return nil
}

// Err implements context.Context.
func (o *op) Err() error {
	select {
	case <-o.gone:
		return context.Canceled
	default:
		return nil
	}
}

// begin makes an op of a request. Who gets it calls end, after which another
// request may have it.
func (m *Mount) begin(cancel <-chan struct{}, h *fuse.InHeader) *op {
	m.answers.next(h.Pid)
	return m.ops.add(m, cancel, h)
}

func (m *Mount) end(o *op) {
	for _, d := range o.dirs {
		if d != nil {
			d.changing(-1)
		}
	}
	if m.ops.remove(o) {
		m.unanswered(o)
		m.ops.mu.Lock()
		m.ops.late--
		m.ops.mu.Unlock()
	}
}

// mayChange notes what the server may change, some of which may be nil.
func (o *op) mayChange(nodes ...*node) {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	for _, n := range nodes {
		if n != nil {
			o.touched = append(o.touched, n)
		}
	}
}

// isClose notes that the request is FLUSH.
func (o *op) isClose() {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	o.closes = true
}

// ops are the requests under way. A signal alone ends none of them: programs do
// not expect that of a disk. But who is being killed does not wait, as with Linux's
// hard mounts, and nobody does when the mount was taken away by force.
type ops struct {
	mu   sync.Mutex
	all  []*op
	free []*op // that did not end before their time
	late int   // that are under way although the kernel has its answer
}

// add notes a request that begins, and gives it a place and its channels.
func (s *ops) add(m *Mount, cancel <-chan struct{}, h *fuse.InHeader) *op {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o *op
	if last := len(s.free) - 1; last >= 0 {
		o, s.free = s.free[last], s.free[:last]
	} else {
		o = &op{gone: make(chan struct{}), calls: calls{context.Background(), make(chan struct{})}}
	}
	o.m, o.from, o.unique, o.cancel, o.place = m, h.Caller, h.Unique, cancel, len(s.all)
	s.all = append(s.all, o)
	return o
}

// remove ends a request, and tells whether the kernel had its answer before.
func (s *ops) remove(o *op) (answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.all) - 1
	s.all[o.place] = s.all[last]
	s.all[o.place].place = o.place
	s.all[last] = nil
	s.all = s.all[:last]
	if len(s.free) < maxBackground && o.Err() == nil && o.calls.Err() == nil {
		o.reset()
		s.free = append(s.free, o)
	}
	return o.answered
}

// reset forgets what add does not set: to copy a whole op takes longer than all else
// of a request.
func (o *op) reset() {
	clear(o.touched)
	clear(o.referred)
	o.touched, o.referred = o.touched[:0], o.referred[:0]
	o.dirs, o.closes, o.polls, o.opened, o.made = [2]*node{}, false, 0, 0, givenName{}
}

// stop ends a request, and its calls.
func (o *op) stop() {
	if o.Err() == nil {
		close(o.gone)
	}
	if o.calls.Err() == nil {
		close(o.calls.ended)
	}
}

// end ends those that need not wait any more for a server that does not answer.
func (s *ops) end(aborted func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // now there is still a connection to look at
	for _, o := range s.all {
		if all || o.Err() == nil && o.interrupted() && killed(o.from.Pid) {
			o.stop()
		}
	}
}

// endKilled ends those whose process was killed, while the server answers others.
// What they wait for here is given up at once. A call that they have made goes on,
// for to give it up can cost the connection: then answer gives the kernel its answer,
// and the request lives on without a process. It has its memory as long as the
// server may use that. endKilled returns what is not believed for the time being.
func (s *ops) endKilled(answer func(unique uint64) bool, aborted func() bool) (doubted []*node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.late > 0 && aborted()
	for _, o := range s.all {
		switch {
		case all && o.answered:
			o.stop()
		case o.answered || !o.closes && !o.interrupted():
		case o.Err() == nil:
			o.polls++
			if o.dead() {
				close(o.gone)
			}
		case s.late < maxLate:
			for _, n := range o.touched {
				n.late.Add(1) // first, for the answer wakes who looks
			}
			if o.answered = answer(o.unique); !o.answered {
				for _, n := range o.touched {
					n.late.Add(-1)
				}
				continue
			}
			s.late++
			doubted = append(doubted, o.touched...)
		}
	}
	return doubted
}

// dead tells whether the process of a request that was interrupted long enough ago
// does not wait for it. Of a process of a namespace that we do not see nobody knows
// whether it was killed, so that it waits longer, and for a change as long as that
// takes.
func (o *op) dead() bool {
	if o.from.Pid == 0 {
		return o.polls >= unseenPolls && len(o.touched) == 0 && !o.closes
	}
	return o.polls >= killPolls && killed(o.from.Pid)
}

// answer tells the kernel that a request was interrupted, in place of who will
// answer it in vain, and returns whether the kernel has taken it.
func (m *Mount) answer(unique uint64) bool {
	const headLen = 16
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(unix.EINTR)+1) // negative
	b = binary.NativeEndian.AppendUint64(b, unique)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}

// unanswered ends a request that the kernel had another answer to: it does not know
// what it was told, and what was changed is looked at again.
func (m *Mount) unanswered(o *op) {
	for _, n := range o.touched {
		m.suspect(n)
		n.late.Add(-1)
	}
	for _, n := range o.referred {
		m.table.forget(n.id, 1)
	}
	if made := o.made; made.dir != nil { // the kernel may believe that there is none
		m.notes.Go(func() { m.expireName(made.dir, made.name) })
	}
	if o.opened == 0 {
		return
	}
	m.files.removeDir(o.opened)
	if f := m.files.removeFile(o.opened); f != nil {
		m.notes.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), farewell)
			defer cancel()
			m.release(ctx, f)
		})
	}
}

// untell takes back that the kernel is told of what the request has found last: it
// fails after all.
func (o *op) untell() {
	last := len(o.referred) - 1
	o.m.table.forget(o.referred[last].id, 1)
	o.referred = o.referred[:last]
}

// interrupted tells whether the process got a signal since it made the request.
func (o *op) interrupted() bool {
	select {
	case <-o.cancel:
		return true
	default:
		return false
	}
}

// watch looks after the requests until stop.
func (m *Mount) watch(stop <-chan struct{}) {
	t := time.NewTicker(killPoll)
	defer t.Stop()
	rest := time.NewTicker(restPoll)
	defer rest.Stop()
	for {
		select {
		case <-stop:
			return
		case <-rest.C:
			m.rest()
			m.landings.rest()
		case <-t.C:
		}
		if !m.cfg.Up() {
			m.ops.end(m.aborted)
			continue
		}
		for _, n := range m.ops.endKilled(m.answer, m.aborted) {
			n.unlend(true)
		}
	}
}
