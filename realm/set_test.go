package realm

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/exports"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSourceEntersLate checks that a call that found an export just before its
// removal does not use its file system, and releases nothing twice.
func TestSourceEntersLate(t *testing.T) {
	released := 0
	s := newSource(new(rootFS))
	s.setReleased(func() { released++ })
	require.True(t, s.enter())
	s.retire()
	assert.False(t, s.enter())
	assert.Zero(t, released)
	s.leave()
	assert.Equal(t, 1, released)
	assert.False(t, s.enter())
	assert.Equal(t, 1, released)
}

// TestSetExportsKeepsSource checks that an export that keeps its path and file
// system keeps the counters of its calls, although all else changes.
func TestSetExportsKeepsSource(t *testing.T) {
	fs, other := new(rootFS), new(rootFS)
	s := newRealm(t, fs)
	source := s.Set().List()[0].source
	readers := exports.Everyone(exports.Options{ReadOnly: true})
	require.NoError(t, s.SetExports([]Export{{Path: "/y", FS: other}, {Path: "/x", FS: fs, Clients: readers}}))
	assert.Same(t, source, s.Set().List()[1].source)
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: other}}))
	assert.NotSame(t, source, s.Set().List()[0].source)
}
