package exportset

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSourceEntersLate checks that a call that found an export just before its
// removal does not use its file system, and releases nothing twice.
func TestSourceEntersLate(t *testing.T) {
	released := 0
	s := newSource(new(fakeRootFS))
	s.setReleased(func() { released++ })
	require.True(t, s.enterCall())
	s.retire()
	assert.False(t, s.enterCall())
	assert.Zero(t, released)
	s.leaveCall()
	assert.Equal(t, 1, released)
	assert.False(t, s.enterCall())
	assert.Equal(t, 1, released)
}

// TestSetExportsKeepsSource checks that an export that keeps its path and file system keeps its
// call counters, even if everything else changes.
func TestSetExportsKeepsSource(t *testing.T) {
	fs, other := new(fakeRootFS), new(fakeRootFS)
	s := newTestSet(t, fs)
	source := s.Snapshot().List()[0].source
	readers := exports.Everyone(exports.Options{ReadOnly: true})
	require.NoError(t, s.SetExports([]Export{{Path: "/y", FS: other}, {Path: "/x", FS: fs, Clients: readers}}))
	assert.Same(t, source, s.Snapshot().List()[1].source)
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: other}}))
	assert.NotSame(t, source, s.Snapshot().List()[0].source)
}
