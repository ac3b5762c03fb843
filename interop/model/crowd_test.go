package model

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newCrowd returns a Crowd with some players, all on one directory of this machine
// or each behind spoil's result.
func newCrowd(t *testing.T, spoil func(i int, p Player) Player) *Crowd {
	d := localDir(t)
	c := &Crowd{Seed: uint64(time.Now().UnixNano()), Source: ContentLooks}
	for _, name := range []string{"p", "q"} {
		require.NoError(t, os.Mkdir(string(d)+"/"+name, 0o755))
		p := &Place{Dir: name, Tree: NewTree()}
		c.Places = append(c.Places, p)
		for _, o := range Files() {
			require.Equal(t, p.Tree.Do(o), Result{})
			_, err := Within(d, name).Do(o)
			require.NoError(t, err)
		}
	}
	for i := range 4 {
		c.Mounts = append(c.Mounts, Mount{"local", spoil(i, ownerHider{d})})
	}
	return c
}

// TestCrowd compares the model with the file system of this machine while
// several players change it and look at it.
func TestCrowd(t *testing.T) {
	c := newCrowd(t, func(_ int, p Player) Player { return p })
	for end := time.Now().Add(20 * time.Second); c.Held.Load() <= 100 && time.Now().Before(end); { // once, unless the machine is busy
		require.NoError(t, c.For(long/4))
	}
	t.Logf("%d held, %d loose", c.Held.Load(), c.Loose.Load())
	assert.Greater(t, c.Held.Load(), int64(100))
	for _, p := range c.Places {
		assert.NoError(t, p.Tree.Compare(Within(c.Mounts[0], p.Dir)))
	}
}

// TestCrowdFindsStale asserts that Crowd detects a player that returns the
// state before a change that had returned when the player was asked.
func TestCrowdFindsStale(t *testing.T) {
	c := newCrowd(t, func(i int, p Player) Player {
		if i > 0 {
			return p
		}
		return cachingPlayer{p, make(map[string]*Attr)}
	})
	err := c.For(time.Minute)
	require.ErrorContains(t, err, "its last changes:")
	assert.ErrorContains(t, err, "reopen")
}

// A cachingPlayer caches the attributes of a file forever.
type cachingPlayer struct {
	Player
	seen map[string]*Attr
}

func (p cachingPlayer) Do(o Op) (Result, error) {
	r, err := p.Player.Do(o)
	if r.Attr != nil {
		if p.seen[o.Path] == nil {
			p.seen[o.Path] = r.Attr
		}
		r.Attr = p.seen[o.Path]
	}
	return r, err
}
