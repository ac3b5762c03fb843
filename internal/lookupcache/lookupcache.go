package lookupcache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Config configures Answers. All fields but Take and Give must be set. P is the
// type of the parties that ask.
type Config[P any, Q comparable, A any] struct {
	// Ask asks the service for a party, until ctx ends. none means that the
	// service knows no answer.
	Ask func(ctx context.Context, of P, q Q) (a A, none bool, err error)

	// Failed gets the errors of Ask.
	Failed func(q Q, err error)

	// Take reports whether a party may have another outstanding question, and
	// Give follows at the question's end; nil means that only AtOnce bounds the
	// questions.
	Take func(of P) bool
	Give func(of P)

	Limits
}

// Limits bound the cost of questions and the age of answers.
type Limits struct {
	Time   time.Duration // of one question
	AtOnce int           // outstanding questions
	Kept   int           // kept answers

	Fresh time.Duration // how long an answer is fresh
	None  time.Duration // how long the answer none is fresh
	Fail  time.Duration // the time after an error before asking again
	Stale time.Duration // the oldest answer that is used while asking again
}

// Answers are the known answers. Many goroutines may use them at once.
type Answers[P any, Q comparable, A any] struct {
	cfg    Config[P, Q, A]
	ctx    context.Context // of questions, which continue after their callers have gone
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu     sync.Mutex
	known  map[Q]*answer[A]
	out    int // outstanding questions
	closed bool
}

// An answer is the known answer to a question. The Answers guard it.
type answer[A any] struct {
	is    A
	at    time.Time     // time of arrival; zero: never
	fresh time.Time     // not asked again until then
	err   error         // of the last question
	done  chan struct{} // closed at the end of the outstanding question; nil: none
}

// Errors of Of.
var (
	ErrBusy   = errors.New("too many lookups are outstanding")
	ErrClosed = errors.New("lookups have been stopped")
)

// New returns empty Answers.
func New[P any, Q comparable, A any](cfg Config[P, Q, A]) *Answers[P, Q, A] {
	r := &Answers[P, Q, A]{cfg: cfg, known: make(map[Q]*answer[A])}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all questions and waits for them. No further question starts.
func (r *Answers[P, Q, A]) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.asking.Wait()
}

// Of returns the answer to q, asked by a party, or the zero A if the service
// knows none. It waits for an answer if none can be used. The error is ErrBusy,
// ErrClosed, the cause of ctx's end, or Ask's.
func (r *Answers[P, Q, A]) Of(ctx context.Context, of P, q Q) (is A, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answerLocked(q)
	now := time.Now()
	if now.After(a.fresh) && a.done == nil {
		r.startLocked(of, q, a)
	}
	known := !a.at.IsZero() && now.Before(a.at.Add(r.cfg.Stale))
	if !known && a.done != nil {
		if err := r.awaitLocked(ctx, a.done); err != nil {
			return is, err
		}
		known = a.err == nil
	}
	if !known {
		return is, a.err
	}
	return a.is, nil
}

// awaitLocked releases the lock and waits for done.
func (r *Answers[P, Q, A]) awaitLocked(ctx context.Context, done <-chan struct{}) error {
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answerLocked returns the answer to q. If the cache is full, a new answer
// replaces an old one.
func (r *Answers[P, Q, A]) answerLocked(q Q) *answer[A] {
	a := r.known[q]
	if a != nil {
		return a
	}
	if len(r.known) >= r.cfg.Kept {
		for old, other := range r.known { // any
			if other.done == nil {
				delete(r.known, old)
				break
			}
		}
	}
	a = new(answer[A])
	r.known[q] = a
	return a
}

func (r *Answers[P, Q, A]) startLocked(of P, q Q, a *answer[A]) {
	switch {
	case r.closed:
		a.err = ErrClosed
		return
	case r.out >= r.cfg.AtOnce, r.cfg.Take != nil && !r.cfg.Take(of):
		a.err = ErrBusy
		return
	}
	r.out++
	a.done = make(chan struct{})
	r.asking.Go(func() { r.run(of, q, a) })
}

// run asks once.
func (r *Answers[P, Q, A]) run(of P, q Q, a *answer[A]) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Time)
	defer cancel()
	is, none, err := r.cfg.Ask(ctx, of, q)
	if err != nil {
		r.cfg.Failed(q, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out--
	if r.cfg.Give != nil {
		r.cfg.Give(of)
	}
	now := time.Now()
	a.err = err
	switch {
	case err != nil:
		a.fresh = now.Add(r.cfg.Fail)
	case none:
		var nothing A
		a.is, a.at, a.fresh = nothing, now, now.Add(r.cfg.None)
	default:
		a.is, a.at, a.fresh = is, now, now.Add(r.cfg.Fresh)
	}
	close(a.done)
	a.done = nil
}
