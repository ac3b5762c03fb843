package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// --exclusive is for every DIR and all its clients; a file system in memory is
// exclusive without.
func TestExclusive(t *testing.T) {
	for _, tt := range []struct {
		o   serveOptions
		dir string
		yes bool
	}{
		{serveOptions{}, "/srv", false},
		{serveOptions{exclusive: true, clientWords: []string{"192.0.2.1", "2001:db8::/32"}}, "/srv", true},
		{serveOptions{}, "mem:=/scratch", true},
	} {
		require.NoError(t, tt.o.understandExports([]string{tt.dir}))
		require.NotEmpty(t, tt.o.exports[0].clients)
		for _, c := range tt.o.exports[0].clients {
			assert.Equal(t, tt.yes, c.Options.Exclusive, tt.dir)
		}
	}
}
