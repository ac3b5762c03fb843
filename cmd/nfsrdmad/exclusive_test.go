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
		flag  bool
		words []string
		dir   string
		yes   bool
	}{
		{false, nil, "/srv", false},
		{true, []string{"192.0.2.1", "2001:db8::/32"}, "/srv", true},
		{false, nil, "mem:=/scratch", true},
	} {
		o := serveOptions{exclusive: tt.flag, clientWords: tt.words}
		require.NoError(t, o.understandExports([]string{tt.dir}))
		require.NotEmpty(t, o.exports[0].clients)
		for _, c := range o.exports[0].clients {
			assert.Equal(t, tt.yes, c.Options.Exclusive, tt.dir)
		}
	}
}
