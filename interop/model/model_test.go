package model

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const long = 2 * time.Second // for a run on the file system of this machine

// localDir returns a directory of this machine, for a user with all rights in it.
func localDir(t *testing.T) Dir {
	mask := unix.Umask(0)
	t.Cleanup(func() { unix.Umask(mask) })
	return Dir(t.TempDir())
}

func newRun(seed uint64, s *Source, mounts ...Mount) *Run {
	return &Run{Seed: seed, Source: s, Mounts: mounts, Tree: NewTree()}
}

// TestLocal compares the model with the file system of this machine: a
// difference is the model's fault. Without root, only the operations on
// contents are compared.
func TestLocal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	source := Anything(seed)
	if os.Getuid() != 0 {
		source = Contents(seed)
	}
	d := localDir(t)
	u := newRun(seed, source, Mount{"local", ownerHider{d}})
	require.NoError(t, u.For(long))
	require.NoError(t, u.Tree.Compare(ownerHider{d}))
	t.Logf("%d operations", u.Done)
	assert.Greater(t, u.Done, 1000)
}

// ownerHider hides the user that runs the test.
type ownerHider struct{ Dir }

func (d ownerHider) Do(o Op) (Result, error) {
	r, err := d.Dir.Do(o)
	if r.Attr != nil && int(r.Attr.UID) == os.Getuid() {
		r.Attr.UID, r.Attr.GID = 0, 0
	}
	return r, err
}

// TestRemote uses Serve and the directory itself alternately.
func TestRemote(t *testing.T) {
	d := localDir(t)
	here, there := net.Pipe()
	var served sync.WaitGroup
	served.Go(func() { assert.NoError(t, Serve(string(d), there, there)) })
	u := newRun(7, Contents(7), Mount{"remote", NewRemote(here)}, Mount{"local", d})
	for range 500 {
		require.NoError(t, u.Step())
	}
	require.NoError(t, here.Close())
	served.Wait()
	_, err := NewRemote(here).Do(Op{Kind: Stat, Path: "a"})
	assert.ErrorIs(t, err, io.ErrClosedPipe)
}

// A wrongPlayer sometimes gives a wrong answer.
type wrongPlayer struct {
	Player
	kind Kind
	with func(r *Result)
}

func (p wrongPlayer) Do(o Op) (Result, error) {
	r, err := p.Player.Do(o)
	if o.Kind == p.kind && r.Err == "" {
		p.with(&r)
	}
	return r, err
}

// TestDivergence asserts that a wrong answer of each kind is detected, with its
// seed.
func TestDivergence(t *testing.T) {
	for name, p := range map[string]wrongPlayer{
		"error":   {kind: Mkdir, with: func(r *Result) { r.Err = "EIO" }},
		"size":    {kind: Stat, with: func(r *Result) { r.Attr.Size++ }},
		"mode":    {kind: Stat, with: func(r *Result) { r.Attr.Mode ^= 1 }},
		"links":   {kind: Stat, with: func(r *Result) { r.Attr.Nlink += 2 }},
		"content": {kind: Read, with: func(r *Result) { r.Sum ^= 1 }},
		"length":  {kind: Read, with: func(r *Result) { r.Len++ }},
		"target":  {kind: Readlink, with: func(r *Result) { r.Text += "x" }},
		"names":   {kind: List, with: func(r *Result) { r.Names = append(r.Names, "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			p.Player = NewTree().newPlayer()
			u := newRun(5, Anything(5), Mount{"tampered", p})
			err := u.For(time.Minute)
			require.ErrorContains(t, err, "seed 5, operation ")
			assert.ErrorContains(t, err, "on tampered")
		})
	}
}

// newPlayer returns a player on a tree, whose results are always right.
func (t *Tree) newPlayer() Player { return treePlayer{t} }

type treePlayer struct{ t *Tree }

func (p treePlayer) Do(o Op) (Result, error) { return p.t.Do(o), nil }

// TestReplay asserts that a seed determines the operations.
func TestReplay(t *testing.T) {
	ops := func(seed uint64) (all []string) {
		for s := Anything(seed); len(all) < 100; {
			all = append(all, s.next().String())
		}
		return all
	}
	assert.Equal(t, ops(1), ops(1))
	assert.NotEqual(t, ops(1), ops(2))
}

// TestKinds asserts that each kind of operation succeeds, and fails, often
// enough to be a test.
func TestKinds(t *testing.T) {
	tree, source := NewTree(), Anything(3)
	good, bad := make(map[Kind]int), make(map[Kind]int)
	for range 20000 {
		o := source.next()
		if r := tree.Do(o); r.Err == "" {
			good[o.Kind]++
		} else {
			bad[o.Kind]++
		}
	}
	for kind := range weights {
		assert.Greater(t, good[kind], 20, kind)
		assert.Greater(t, bad[kind], 20, kind)
	}
}

// TestCompare asserts that a deviation of a tree from the model is detected.
func TestCompare(t *testing.T) {
	d := localDir(t)
	u := newRun(9, Contents(9), Mount{"local", ownerHider{d}})
	for range 200 {
		require.NoError(t, u.Step())
	}
	require.NoError(t, u.Tree.Compare(ownerHider{d}))
	require.NoError(t, os.WriteFile(string(d)+"/a", []byte("other"), 0o644))
	assert.ErrorContains(t, u.Tree.Compare(ownerHider{d}), `"path":"a"`)
	require.NoError(t, os.WriteFile(string(d)+"/extra", nil, 0o644))
	assert.ErrorContains(t, u.Tree.Compare(ownerHider{d}), "extra")
}
