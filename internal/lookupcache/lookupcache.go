package lookupcache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Config configures Answers. All fields except Take and Give must be set. P is
// the type of the parties that ask.
type Config[P, Q comparable, A any] struct {
	// Ask queries the service for a party, until ctx is done. none means that the
	// service knows no answer.
	Ask func(ctx context.Context, of P, q Q) (a A, none bool, err error)

	// Failed receives the errors from Ask.
	Failed func(q Q, err error)

	// Take reports whether a party may have another outstanding question, and Give
	// is called when the question is answered; nil means that only AtOnce bounds
	// the questions.
	Take func(of P) bool
	Give func(of P)

	Limits
}

// Limits bound the questions' cost and the answers' age.
type Limits struct {
	Time   time.Duration // time limit for one question
	AtOnce int           // maximum number of outstanding questions
	Kept   int           // maximum number of cached answers

	Fresh time.Duration // time for which an answer is fresh
	None  time.Duration // time for which the answer none is fresh
	Fail  time.Duration // time after an error before the next question
	Stale time.Duration // maximum age for an answer that is used during a new question
}

// Answers are the cached answers. Many goroutines may use them at once.
type Answers[P, Q comparable, A any] struct {
	cfg    Config[P, Q, A]
	ctx    context.Context // for questions, which continue after their callers have returned
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu          sync.Mutex
	known       map[Q]*cachedAnswer[P, A]
	byParty     map[P]map[Q]*cachedAnswer[P, A] // the same, by the party that asked first
	outstanding int                             // maximum number of outstanding questions
	closed      bool
}

// A cachedAnswer is the known answer to a question. Answers.mu guards it.
type cachedAnswer[P, A any] struct {
	value      A
	arrived    time.Time           // when it arrived; zero: never
	freshUntil time.Time           // no new question until then
	err        error               // error from the last question
	pending    *pendingQuestion[P] // the last outstanding question; nil: none
	party      P                   // the party that asked first
}

// A pendingQuestion is outstanding until done is closed.
type pendingQuestion[P any] struct {
	party P
	done  chan struct{}
	err   error // valid once done is closed
}

// Errors returned by Of.
var (
	ErrBusy   = errors.New("too many lookups are outstanding")
	ErrClosed = errors.New("lookups have been stopped")
)

// New returns empty Answers.
func New[P, Q comparable, A any](cfg Config[P, Q, A]) *Answers[P, Q, A] {
	r := &Answers[P, Q, A]{cfg: cfg, known: make(map[Q]*cachedAnswer[P, A]), byParty: make(map[P]map[Q]*cachedAnswer[P, A])}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close cancels all questions and waits for them. No further question starts.
func (r *Answers[P, Q, A]) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.asking.Wait()
}

// Forget drops all answers. An outstanding question is answered only for the
// callers that wait for it.
func (r *Answers[P, Q, A]) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.byParty = make(map[Q]*cachedAnswer[P, A]), make(map[P]map[Q]*cachedAnswer[P, A])
}

// Of returns the answer to q, asked by a party, or the zero A if the service knows
// none. It waits for an answer if none can be used. The error is ErrBusy,
// ErrClosed, ctx's cause, or Ask's.
//
// A party that must wait does not wait for another party's question, which that
// party's share may delay: it asks its own.
func (r *Answers[P, Q, A]) Of(ctx context.Context, of P, q Q) (is A, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[q]
	if a == nil {
		a = new(cachedAnswer[P, A])
	}
	now := time.Now()
	known := !a.arrived.IsZero() && now.Before(a.arrived.Add(r.cfg.Stale))
	x := a.pending
	if now.After(a.freshUntil) && (x == nil || !known && x.party != of) {
		started, err := r.startQuestionLocked(of, q, a)
		switch {
		case err == nil:
			x = started
		case x == nil && !known:
			return is, err
		}
	}
	switch {
	case known:
		return a.value, nil
	case x == nil:
		return is, a.err
	}
	if err := r.awaitLocked(ctx, x.done); err != nil {
		return is, err
	}
	if x.err != nil {
		return is, x.err
	}
	return a.value, nil
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

// storeLocked stores a as the answer to q, for a party. If the cache is full, a
// replaces an answer held by the party with the most: a party that asks very many
// questions evicts only its own answers.
func (r *Answers[P, Q, A]) storeLocked(of P, q Q, a *cachedAnswer[P, A]) {
	if r.known[q] == a {
		return
	}
	if len(r.known) >= r.cfg.Kept {
		r.evictLocked()
	}
	a.party = of
	r.known[q] = a
	mine := r.byParty[of]
	if mine == nil {
		mine = make(map[Q]*cachedAnswer[P, A])
		r.byParty[of] = mine
	}
	mine[q] = a
}

// evictLocked evicts any answer, without an outstanding question, from the party
// with the most.
func (r *Answers[P, Q, A]) evictLocked() {
	var most map[Q]*cachedAnswer[P, A]
	for _, some := range r.byParty {
		if len(some) > len(most) {
			most = some
		}
	}
	for _, from := range []map[Q]*cachedAnswer[P, A]{most, r.known} {
		for q, a := range from {
			if a.pending != nil {
				continue
			}
			delete(r.known, q)
			if delete(r.byParty[a.party], q); len(r.byParty[a.party]) == 0 {
				delete(r.byParty, a.party)
			}
			return
		}
	}
}

func (r *Answers[P, Q, A]) startQuestionLocked(of P, q Q, a *cachedAnswer[P, A]) (*pendingQuestion[P], error) {
	switch {
	case r.closed:
		return nil, ErrClosed
	case r.outstanding >= r.cfg.AtOnce, r.cfg.Take != nil && !r.cfg.Take(of):
		return nil, ErrBusy
	}
	r.storeLocked(of, q, a)
	r.outstanding++
	x := &pendingQuestion[P]{party: of, done: make(chan struct{})}
	a.pending = x
	r.asking.Go(func() { r.askService(q, a, x) })
	return x, nil
}

// askService queries the service once. A failed question leaves the answer to a
// later one.
func (r *Answers[P, Q, A]) askService(q Q, a *cachedAnswer[P, A], x *pendingQuestion[P]) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Time)
	defer cancel()
	is, none, err := r.cfg.Ask(ctx, x.party, q)
	if err != nil {
		r.cfg.Failed(q, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outstanding--
	if r.cfg.Give != nil {
		r.cfg.Give(x.party)
	}
	now := time.Now()
	switch {
	case err != nil && a.pending != x:
	case err != nil:
		a.err, a.freshUntil = err, now.Add(r.cfg.Fail)
	case none:
		var nothing A
		a.value, a.arrived, a.freshUntil = nothing, now, now.Add(r.cfg.None)
	default:
		a.value, a.arrived, a.freshUntil = is, now, now.Add(r.cfg.Fresh)
	}
	if a.pending == x {
		a.pending = nil
	}
	x.err = err
	close(x.done)
}
