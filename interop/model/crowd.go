package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Crowd does operations on mounts concurrently.
type Crowd struct {
	Seed   uint64
	Source func(seed uint64) *Source // each mount's operations
	Mounts []Mount                   // each does one operation at a time
	Places []*Place
	Before func() // each change, or nil
	// Leave, if not nil, reports that an operation is unsuitable for a mount.
	// The operation is then omitted.
	Leave func(t *Tree, o Op, mount string) bool

	Held  atomic.Int64 // operations compared with the model
	Loose atomic.Int64 // looks with a concurrent change
}

// A Place is a directory on the mounts with one change at a time. Looks do not
// wait for changes.
type Place struct {
	Dir  string // below the mounts
	Tree *Tree  // its expected state

	change sync.Mutex // held during a change
	mu     sync.Mutex // guards the fields below, and Tree
	begun  int        // changes
	ended  int
	last   []string // changes
}

var errBroken = errors.New("an unexplained input or output error")

// For does operations until the time is over, or a result is wrong.
func (c *Crowd) For(d time.Duration) error {
	var all sync.WaitGroup
	var failed atomic.Bool
	errs := make([]error, len(c.Mounts))
	end := time.Now().Add(d)
	for i, m := range c.Mounts {
		all.Go(func() {
			source, r := c.Source(c.Seed+uint64(i)), rand.New(rand.NewPCG(c.Seed, uint64(i)))
			for errs[i] == nil && !failed.Load() && time.Now().Before(end) {
				errs[i] = c.runStep(m, c.Places[r.IntN(len(c.Places))], source.next())
			}
			if errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *Crowd) runStep(m Mount, p *Place, o Op) error {
	do := c.doLook
	if o.isChange() {
		do = c.doChange
	}
	if err := do(m, p, o); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Errorf("seed %d, in %s by %s: %s %w\nits last changes:\n%s", c.Seed, p.Dir, m.Name, o, err, joinLines(p.last))
	}
	return nil
}

// doChange does an operation while no other change is in progress.
func (c *Crowd) doChange(m Mount, p *Place, o Op) error {
	p.change.Lock()
	defer p.change.Unlock()
	if c.Leave != nil && c.Leave(p.Tree, o, m.Name) {
		return nil
	}
	if c.Before != nil {
		c.Before()
	}
	p.mu.Lock()
	p.begun++
	want := p.Tree.Do(o)
	p.mu.Unlock()

	got, err := Within(m, p.Dir).Do(o)

	p.mu.Lock()
	p.ended++
	p.last = appendLatest(p.last, fmt.Sprintf("%6d %s: %s: %s", p.ended, m.Name, o, got))
	p.mu.Unlock()
	c.Held.Add(1)
	return checkResult(want, got, err)
}

// doLook does an operation that changes nothing. The expected result is known if no
// change was in progress between its begin and its end.
func (c *Crowd) doLook(m Mount, p *Place, o Op) error {
	p.mu.Lock()
	begun, quiet := p.begun, p.begun == p.ended
	want := p.Tree.Do(o)
	p.mu.Unlock()

	got, err := Within(m, p.Dir).Do(o)

	p.mu.Lock()
	quiet = quiet && p.begun == begun
	p.mu.Unlock()
	if quiet {
		c.Held.Add(1)
		return checkResult(want, got, err)
	}
	c.Loose.Add(1)
	if err == nil && got.Err == "EIO" {
		err = errBroken
	}
	return err
}

func checkResult(want, got Result, err error) error {
	if err == nil && !sameResult(want, got) {
		err = fmt.Errorf("said %s and not %s", got, want)
	}
	return err
}
