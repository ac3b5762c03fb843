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

// An op is one request of the kernel under way, and the context of the calls
// made for it. An op ends early only as ops describes; calls already made then
// continue.
type op struct {
	m      *Mount
	from   fuse.Caller
	unique uint64          // the kernel's number of the request
	cancel <-chan struct{} // closed when the process gets a signal or the mount goes away
	place  int             // index in ops.all
	dirs   [2]*node        // directories in which the request changes names; nil: none
	gone   chan struct{}
	calls  calls

	// Guarded by the lock of ops.
	closes   bool    // the request is FLUSH, or the unlock of RELEASE: an exiting process gets no signal
	polls    int     // of watch since the interruption
	answered bool    // the kernel was already answered with EINTR
	touched  []*node // nodes that the server may change

	// Owned by the goroutine that handles the request. If the kernel does not
	// take the answer, unanswered undoes these.
	referred []*node
	opened   uint64    // number of a file or directory handle; 0: none
	made     givenName // name that the server may have created
}

// A givenName is a name that a request gives to an object.
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

// changes records the directories in which the request changes names.
func (o *op) changes(dirs ...*node) {
	copy(o.dirs[:], dirs)
	for _, d := range dirs {
		d.changing(+1)
	}
	o.mayChange(dirs...)
}

// who returns the caller that made the request.
func (o *op) who() *caller { return o.m.callers.of(&o.from) }

// c returns the Client that calls in the name of the request's caller.
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

// begin makes an op of a request. The caller must call end; afterwards another
// request may reuse the op.
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

// mayChange records nodes that the server may change. Nodes may be nil.
func (o *op) mayChange(nodes ...*node) {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	for _, n := range nodes {
		if n != nil {
			o.touched = append(o.touched, n)
		}
	}
}

// isClose records that the request is FLUSH or RELEASE.
func (o *op) isClose() {
	o.m.ops.mu.Lock()
	defer o.m.ops.mu.Unlock()
	o.closes = true
}

// ops holds the requests under way. A signal alone ends no request, because
// programs do not expect that of a disk. But a process that is being killed
// does not wait, as with Linux's hard mounts, and no process waits after a
// forced unmount.
type ops struct {
	mu   sync.Mutex
	all  []*op
	free []*op // for reuse; none of them was stopped early
	late int   // number under way that the kernel has already been answered for
}

// add records a request that begins, and gives it a place and its channels.
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

// remove ends a request, and reports whether the kernel had been answered
// before.
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

// reset clears the fields that add does not set. Copying a whole op would take
// longer than the rest of a request.
func (o *op) reset() {
	clear(o.touched)
	clear(o.referred)
	o.touched, o.referred = o.touched[:0], o.referred[:0]
	o.dirs, o.closes, o.polls, o.opened, o.made = [2]*node{}, false, 0, 0, givenName{}
}

// stop ends a request and its calls.
func (o *op) stop() {
	if o.Err() == nil {
		close(o.gone)
	}
	if o.calls.Err() == nil {
		close(o.calls.ended)
	}
}

// end stops the requests of killed processes while the server does not answer,
// and all requests if the kernel has cut the connection.
func (s *ops) end(aborted func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // a request under way keeps m.fd open
	for _, o := range s.all {
		if all || o.Err() == nil && o.interrupted() && killed(o.from.Pid) {
			o.stop()
		}
	}
}

// endKilled ends the requests of killed processes while the server answers
// others, and those of closes if the kernel has cut the connection. Local waits end
// at once. A call already made continues, because
// abandoning it can cost the connection: answer then gives the kernel its
// reply, and the request lives on without a process. The request keeps its
// memory as long as the server may use it. endKilled returns the nodes that
// must not be trusted until then.
func (s *ops) endKilled(answer func(unique uint64) bool, aborted func() bool) (doubted []*node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.all) > 0 && aborted() // a request under way keeps m.fd open
	for _, o := range s.all {
		switch {
		case all && o.answered:
			o.stop()
		case o.answered || !o.closes && !o.interrupted():
		case o.Err() == nil:
			o.polls++
			if all && o.closes || o.dead() {
				close(o.gone)
			}
		case s.late < maxLate:
			for _, n := range o.touched {
				n.late.Add(1) // before answer, which wakes the process
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

// dead reports whether the process of a request that was interrupted long
// enough ago no longer waits. A process of a namespace that we cannot see may
// or may not have been killed: its request waits longer, and a request that
// changes something waits until it is done.
func (o *op) dead() bool {
	if o.from.Pid == 0 {
		return o.polls >= unseenPolls && len(o.touched) == 0 && !o.closes
	}
	return o.polls >= killPolls && killed(o.from.Pid)
}

// answer tells the kernel that a request was interrupted, instead of the
// request's own reply, which will come too late. It reports whether the kernel
// took the answer.
func (m *Mount) answer(unique uint64) bool {
	const headLen = 16
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, headLen), headLen)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(unix.EINTR)+1) // negative
	b = binary.NativeEndian.AppendUint64(b, unique)
	_, err := unix.Write(m.notifyFD, b)
	return err == nil
}

// unanswered ends a request whose reply the kernel did not take: it undoes the
// references that the reply would have given, and marks the changed nodes as
// suspect.
func (m *Mount) unanswered(o *op) {
	for _, n := range o.touched {
		m.suspect(n)
		n.late.Add(-1)
	}
	for _, n := range o.referred {
		m.table.forget(n.id, 1)
	}
	if made := o.made; made.dir != nil { // the kernel may believe that the name does not exist
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

// untell takes back the reference to the node that the request found last,
// because the request fails after all.
func (o *op) untell() {
	last := len(o.referred) - 1
	o.m.table.forget(o.referred[last].id, 1)
	o.referred = o.referred[:last]
}

// interrupted reports whether the process got a signal since it made the
// request.
func (o *op) interrupted() bool {
	select {
	case <-o.cancel:
		return true
	default:
		return false
	}
}

// watch checks the requests under way until stop is closed.
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
			m.readBuffers.rest()
			m.writeBuffers.rest()
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
