package fairshare

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlaces checks that a party gets half of the places, that the others get
// half of what is left, and that a waiting call gets a place as soon as its
// party may have one.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(16)
		a, b, c := PartyOfIP(netip.MustParseAddr("192.0.2.1")), PartyOfIP(netip.MustParseAddr("192.0.2.2")), Name{}
		all := func(of Name) (n int) {
			for p.Take(of) {
				n++
			}
			return n
		}
		assert.Equal(t, []int{8, 4, 2}, []int{all(a), all(b), all(c)})
		assert.Equal(t, 14, p.Taken())

		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		ends := make(chan error)
		go func() { ends <- p.Acquire(ctx, a) }()
		synctest.Wait()
		cancel(gone)
		assert.ErrorIs(t, <-ends, gone)

		go func() { ends <- p.Acquire(t.Context(), c) }()
		synctest.Wait()
		p.Give(b)
		require.NoError(t, <-ends)
		for of, n := range map[Name]int{a: 8, b: 3, c: 3} {
			for range n {
				p.Give(of)
			}
		}
		assert.Zero(t, p.Taken())
		assert.Empty(t, p.by)
	})
}
