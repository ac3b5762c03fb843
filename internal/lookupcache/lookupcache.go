package lookupcache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Config configures Answers. All fields but Take and Give must be set. P is the
// type of the parties that ask.
type Config[P, Q comparable, A any] struct {
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
type Answers[P, Q comparable, A any] struct {
	cfg    Config[P, Q, A]
	ctx    context.Context // of questions, which continue after their callers have gone
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu     sync.Mutex
	known  map[Q]*answer[P, A]
	kept   map[P]map[Q]*answer[P, A] // the same, by the party that asked first
	out    int                       // outstanding questions
	closed bool
}

// An answer is the known answer to a question. The Answers guard it.
type answer[P, A any] struct {
	is    A
	at    time.Time    // time of arrival; zero: never
	fresh time.Time    // not asked again until then
	err   error        // of the last question
	asked *question[P] // the last outstanding question; nil: none
	of    P            // the party that asked first
}

// A question is outstanding until done is closed.
type question[P any] struct {
	of   P
	done chan struct{}
	err  error // valid once done is closed
}

// Errors of Of.
var (
	ErrBusy   = errors.New("too many lookups are outstanding")
	ErrClosed = errors.New("lookups have been stopped")
)

// New returns empty Answers.
func New[P, Q comparable, A any](cfg Config[P, Q, A]) *Answers[P, Q, A] {
	r := &Answers[P, Q, A]{cfg: cfg, known: make(map[Q]*answer[P, A]), kept: make(map[P]map[Q]*answer[P, A])}
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

// Forget forgets all answers. A question that is outstanding answers only the
// callers that wait for it.
func (r *Answers[P, Q, A]) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.kept = make(map[Q]*answer[P, A]), make(map[P]map[Q]*answer[P, A])
}

// Of returns the answer to q, asked by a party, or the zero A if the service
// knows none. It waits for an answer if none can be used. The error is ErrBusy,
// ErrClosed, the cause of ctx's end, or Ask's.
//
// A party that has to wait does not wait for the question of another, which may
// be held up by that party's share: it asks by itself.
func (r *Answers[P, Q, A]) Of(ctx context.Context, of P, q Q) (is A, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[q]
	if a == nil {
		a = new(answer[P, A])
	}
	now := time.Now()
	known := !a.at.IsZero() && now.Before(a.at.Add(r.cfg.Stale))
	x := a.asked
	if now.After(a.fresh) && (x == nil || !known && x.of != of) {
		started, err := r.startLocked(of, q, a)
		switch {
		case err == nil:
			x = started
		case x == nil && !known:
			return is, err
		}
	}
	switch {
	case known:
		return a.is, nil
	case x == nil:
		return is, a.err
	}
	if err := r.awaitLocked(ctx, x.done); err != nil {
		return is, err
	}
	if x.err != nil {
		return is, x.err
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

// keepLocked keeps a as the answer to q, for a party. If the cache is full, a
// replaces an answer of the party with the most: a party that asks about all
// there is has only its own forgotten.
func (r *Answers[P, Q, A]) keepLocked(of P, q Q, a *answer[P, A]) {
	if r.known[q] == a {
		return
	}
	if len(r.known) >= r.cfg.Kept {
		r.forgetLocked()
	}
	a.of = of
	r.known[q] = a
	mine := r.kept[of]
	if mine == nil {
		mine = make(map[Q]*answer[P, A])
		r.kept[of] = mine
	}
	mine[q] = a
}

// forgetLocked forgets any answer, without an outstanding question, of the party
// with the most.
func (r *Answers[P, Q, A]) forgetLocked() {
	var most map[Q]*answer[P, A]
	for _, some := range r.kept {
		if len(some) > len(most) {
			most = some
		}
	}
	for _, from := range []map[Q]*answer[P, A]{most, r.known} {
		for q, a := range from {
			if a.asked != nil {
				continue
			}
			delete(r.known, q)
			if delete(r.kept[a.of], q); len(r.kept[a.of]) == 0 {
				delete(r.kept, a.of)
			}
			return
		}
	}
}

func (r *Answers[P, Q, A]) startLocked(of P, q Q, a *answer[P, A]) (*question[P], error) {
	switch {
	case r.closed:
		return nil, ErrClosed
	case r.out >= r.cfg.AtOnce, r.cfg.Take != nil && !r.cfg.Take(of):
		return nil, ErrBusy
	}
	r.keepLocked(of, q, a)
	r.out++
	x := &question[P]{of: of, done: make(chan struct{})}
	a.asked = x
	r.asking.Go(func() { r.run(q, a, x) })
	return x, nil
}

// run asks once. A question that fails leaves the answer to a later one.
func (r *Answers[P, Q, A]) run(q Q, a *answer[P, A], x *question[P]) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Time)
	defer cancel()
	is, none, err := r.cfg.Ask(ctx, x.of, q)
	if err != nil {
		r.cfg.Failed(q, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out--
	if r.cfg.Give != nil {
		r.cfg.Give(x.of)
	}
	now := time.Now()
	switch {
	case err != nil && a.asked != x:
	case err != nil:
		a.err, a.fresh = err, now.Add(r.cfg.Fail)
	case none:
		var nothing A
		a.is, a.at, a.fresh = nothing, now, now.Add(r.cfg.None)
	default:
		a.is, a.at, a.fresh = is, now, now.Add(r.cfg.Fresh)
	}
	if a.asked == x {
		a.asked = nil
	}
	x.err = err
	close(x.done)
}
