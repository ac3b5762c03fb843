package serverlist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The pause before a server that does not serve is asked again, while another one has not
// replied, starts at firstPause and doubles up to maxPause. It delays the change to a server
// that takes over.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// All Links together doubt once in doubtPause, however many they are. Before a silent server
// is left, it gets confirmTime to reply over another connection.
const (
	doubtPause  = 400 * time.Millisecond
	confirmTime = 250 * time.Millisecond
)

// refusalTime is the time that the first choice waits for the servers that have not replied
// if a server has refused.
const refusalTime = 3 * time.Second

var (
	errChosen = errors.New("serverlist: a server was chosen")
	errMoved  = errors.New("serverlist: another server of the list serves now")
)

// A RefusedError reports that a server serves, but not what the client needs: it has no
// such export, or denies access to it. The first choice is such a server if no other
// serves; later choices never are.
type RefusedError struct{ Err error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// An Error reports that no server of a list serves.
type Error struct {
	Servers []string
	Errs    []error // for each server: why it does not serve
}

// Error names each server with its reason.
func (e *Error) Error() string {
	var all []string
	for i, err := range e.Errs {
		all = append(all, fmt.Sprintf("%s: %v", e.Servers[i], err))
	}
	return fmt.Sprintf("none of the %d servers serves: %s", len(e.Servers), strings.Join(all, "; "))
}

// Unwrap returns the reasons.
func (e *Error) Unwrap() []error { return e.Errs }

// A Config configures a Selector.
type Config struct {
	// Servers are the servers' names in errors.
	Servers []string

	// Ask returns nil if a server serves, and otherwise the reason. It is called
	// concurrently, returns soon after ctx ends, and leaves no connection open.
	Ask func(ctx context.Context, server int) error

	// Moved, if not nil, is called when another server is chosen than before.
	Moved func(from, to int)
}

// A Selector chooses the server for a client's connections.
type Selector struct {
	cfg  Config
	turn chan struct{} // has an element while a goroutine asks the servers

	mu          sync.Mutex
	choice      *choice // nil: none yet
	links       []*Link
	selecting   int       // calls of Select in progress; no Doubt begins meanwhile
	cancelDoubt func()    // ends a Doubt in progress; or nil
	lastDoubt   time.Time // when the last one ended
}

// A choice is the result of asking the servers once.
type choice struct{ server int }

// New returns a Selector.
func New(cfg Config) *Selector { return &Selector{cfg: cfg, turn: make(chan struct{}, 1)} }

// Current returns the server that was chosen last, or 0.
func (s *Selector) Current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.choice == nil {
		return 0
	}
	return s.choice.server
}

// A Link is one connection of a client, and the connections that replace it.
type Link struct {
	selector *Selector
	choice   *choice // of the last Select; the selector's mu protects it
	abort    func(cause error)
}

// NewLink returns a Link without a connection.
func (s *Selector) NewLink() *Link {
	l := &Link{selector: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

// Select returns the server for the Link's next connection. It asks all servers, unless
// another Link has done so since this Link's last call. The error is an *Error, or ctx's
// cause if other Links have asked the servers until ctx ended.
func (l *Link) Select(ctx context.Context) (server int, err error) {
	s := l.selector
	s.beginSelect()
	defer s.endSelect()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	s.mu.Lock()
	now, isFirst := s.choice, s.choice == nil
	isNews := now != l.choice
	l.choice, l.abort = now, nil
	s.mu.Unlock()
	if isNews {
		return now.server, nil
	}
	all := make([]int, len(s.cfg.Servers))
	for i := range all {
		all[i] = i
	}
	server, err = s.ask(ctx, all, isFirst)
	if err != nil {
		return 0, err
	}
	s.choose(l, server)
	return server, nil
}

// Connected records the function that aborts the Link's new connection. If another server
// has been chosen since Select, Connected calls it at once.
func (l *Link) Connected(abort func(cause error)) {
	l.selector.mu.Lock()
	l.abort = abort
	isOld := l.isOldLocked()
	l.selector.mu.Unlock()
	if isOld {
		abort(errMoved)
	}
}

// isOldLocked reports whether the Link's connection leads to another server than the one
// that was chosen last.
func (l *Link) isOldLocked() bool {
	now := l.selector.choice
	return l.choice != nil && now.server != l.choice.server
}

// Doubt asks the other servers, because the Link's server does not respond. If one of them
// serves, and the Link's server does not over another connection, all connections to the
// latter are aborted. Doubt does nothing while the servers are being asked, or soon after
// the last Doubt.
func (l *Link) Doubt(ctx context.Context) {
	s := l.selector
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, ok := l.beginDoubt(cancel)
	if !ok {
		return
	}
	defer s.endDoubt()
	var others []int
	for i := range s.cfg.Servers {
		if i != now {
			others = append(others, i)
		}
	}
	server, err := s.ask(ctx, others, false)
	if err == nil && !s.confirms(ctx, now) {
		s.choose(nil, server)
	}
}

// beginDoubt returns the server that was chosen last, or false if Doubt has nothing to do.
// Otherwise the caller holds turn.
func (l *Link) beginDoubt(cancel func()) (server int, ok bool) {
	s := l.selector
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.selecting > 0 || l.choice == nil || l.isOldLocked() || time.Since(s.lastDoubt) < doubtPause {
		return 0, false
	}
	select {
	case s.turn <- struct{}{}:
	default:
		return 0, false
	}
	s.cancelDoubt = cancel
	return s.choice.server, true
}

func (s *Selector) endDoubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelDoubt, s.lastDoubt = nil, time.Now()
	<-s.turn
}

// confirms reports whether a server serves after all, or the Doubt has been ended.
func (s *Selector) confirms(ctx context.Context, server int) bool {
	soon, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	return s.cfg.Ask(soon, server) == nil || ctx.Err() != nil
}

// beginSelect ends a Doubt in progress, and lets none begin until endSelect: a connection
// that is lost matters more.
func (s *Selector) beginSelect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selecting++
	if s.cancelDoubt != nil {
		s.cancelDoubt()
	}
}

func (s *Selector) endSelect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selecting--
}

// choose records a choice, which is also the last one of l, and aborts the connections to
// other servers. The caller must hold turn.
func (s *Selector) choose(l *Link, server int) {
	s.mu.Lock()
	before := s.choice
	s.choice = &choice{server}
	if l != nil {
		l.choice = s.choice
	}
	var aborts []func(error)
	for _, other := range s.links {
		if other.abort != nil && other.isOldLocked() {
			aborts = append(aborts, other.abort)
			other.abort = nil
		}
	}
	s.mu.Unlock()
	if before != nil && before.server != server && s.cfg.Moved != nil {
		s.cfg.Moved(before.server, server)
	}
	for _, abort := range aborts {
		abort(errMoved)
	}
}

// A reply is the result of asking a server.
type reply struct {
	server int
	err    error
}

// ask asks servers at once, and returns the first that serves. A server that does not serve
// is asked again as long as another one has not replied. With acceptRefused, a server that
// refuses is better than none. No call of Ask is in progress when ask returns.
func (s *Selector) ask(ctx context.Context, servers []int, acceptRefused bool) (server int, err error) {
	last := make([]error, len(s.cfg.Servers))
	server = s.awaitServer(ctx, servers, acceptRefused, last)
	if server >= 0 {
		return server, nil
	}
	e := new(Error)
	for _, i := range servers {
		e.Servers, e.Errs = append(e.Servers, s.cfg.Servers[i]), append(e.Errs, last[i])
	}
	return 0, e
}

// awaitServer returns the first server that serves, or -1. last receives the last error of
// each server that does not.
func (s *Selector) awaitServer(ctx context.Context, servers []int, acceptRefused bool, last []error) int {
	replies := make(chan reply)
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel(errChosen)
	for _, i := range servers {
		asking.Go(func() { last[i] = s.askRepeatedly(ctx, i, replies) })
	}
	r := tally{replied: make(map[int]bool), refused: -1}
	var patience <-chan time.Time
	for len(r.replied) < len(servers) {
		select {
		case got := <-replies:
			if got.err == nil {
				return got.server
			}
			r.add(got)
		case <-patience:
			return r.refused
		case <-ctx.Done():
			return -1
		}
		if acceptRefused && r.refused >= 0 && patience == nil {
			patience = time.After(refusalTime)
		}
	}
	if acceptRefused {
		return r.refused
	}
	return -1
}

// askRepeatedly asks a server until it serves or ctx ends, and returns its last error.
func (s *Selector) askRepeatedly(ctx context.Context, server int, replies chan<- reply) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := s.cfg.Ask(ctx, server)
		select {
		case replies <- reply{server, err}:
		case <-ctx.Done():
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// A tally counts the replies of servers that do not serve.
type tally struct {
	replied map[int]bool
	refused int // a server that refuses, or -1
}

func (r *tally) add(got reply) {
	r.replied[got.server] = true
	_, refuses := errors.AsType[*RefusedError](got.err)
	switch {
	case refuses && r.refused < 0:
		r.refused = got.server
	case !refuses && r.refused == got.server:
		r.refused = -1
	}
}
