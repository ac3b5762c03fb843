package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Crowd does operations on mounts at the same time.
type Crowd struct {
	Seed   uint64
	Source func(seed uint64) *Source // of each mount's operations
	Mounts []Mount                   // each does one operation at a time
	Places []*Place
	Before func() // each change, or nil
	// Leave, if not nil, tells that an operation is not for a mount: it is left out.
	Leave func(t *Tree, o Op, mount string) bool

	Held  atomic.Int64 // operations that were held to the model
	Loose atomic.Int64 // looks during which something was changed
}

// A Place is a directory of the mounts in which there is one change at a time. Who
// looks does not wait for that.
type Place struct {
	Dir  string // below the mounts
	Tree *Tree  // what it is like

	change sync.Mutex // held while something is changed
	mu     sync.Mutex // for what follows, and Tree
	begun  int        // changes
	ended  int
	last   []string // changes
}

var errBroken = errors.New("an input or output error, which nothing here explains")

// For does operations until the time is over, or one says what it must not.
func (c *Crowd) For(d time.Duration) error {
	var all sync.WaitGroup
	var failed atomic.Bool
	errs := make([]error, len(c.Mounts))
	end := time.Now().Add(d)
	for i, m := range c.Mounts {
		all.Go(func() {
			source, r := c.Source(c.Seed+uint64(i)), rand.New(rand.NewPCG(c.Seed, uint64(i)))
			for errs[i] == nil && !failed.Load() && time.Now().Before(end) {
				errs[i] = c.step(m, c.Places[r.IntN(len(c.Places))], source.Next())
			}
			if errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *Crowd) step(m Mount, p *Place, o Op) error {
	do := c.look
	if o.changes() {
		do = c.change
	}
	if err := do(m, p, o); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Errorf("seed %d, in %s by %s: %s %w\nits last changes:\n%s", c.Seed, p.Dir, m.Name, o, err, lines(p.last))
	}
	return nil
}

// change does an operation while there is no other change.
func (c *Crowd) change(m Mount, p *Place, o Op) error {
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
	p.last = latest(p.last, fmt.Sprintf("%6d %s: %s: %s", p.ended, m.Name, o, got))
	p.mu.Unlock()
	c.Held.Add(1)
	return held(want, got, err)
}

// look does an operation that changes nothing. What it must say is known if there was
// no change from before it began until after it had ended.
func (c *Crowd) look(m Mount, p *Place, o Op) error {
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
		return held(want, got, err)
	}
	c.Loose.Add(1)
	if err == nil && got.Err == "EIO" {
		err = errBroken
	}
	return err
}

func held(want, got Result, err error) error {
	if err == nil && !same(want, got) {
		err = fmt.Errorf("said %s and not %s", got, want)
	}
	return err
}
