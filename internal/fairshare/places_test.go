package fairshare

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlaces checks that a party gets half of the places, that the others get half
// of the rest, and that a waiting call gets a place as soon as its party may have
// one.
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
		assert.Empty(t, p.waits)
		assert.Empty(t, p.turns)
	})
}

// TestPlacesInTurn checks that a party's calls get places in order of arrival, that
// parties take turns, and that each released place wakes only one call.
func TestPlacesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		p := NewPlaces(2)
		a, b, c := PartyOfIP(netip.MustParseAddr("192.0.2.1")), PartyOfIP(netip.MustParseAddr("192.0.2.2")), Name{}
		require.True(t, p.Take(c) && p.Take(a))
		type turn struct {
			of Name
			n  int
		}
		var got []turn
		for n := range calls {
			for _, of := range []Name{a, b} {
				go func() {
					if assert.NoError(t, p.Acquire(t.Context(), of)) {
						got = append(got, turn{of, n})
					}
				}()
				synctest.Wait()
			}
		}
		p.Give(a)
		for range 2*calls - 1 {
			synctest.Wait()
			p.Give(got[len(got)-1].of)
		}
		synctest.Wait()
		require.Len(t, got, 2*calls)
		for i, one := range got {
			assert.Equal(t, turn{[]Name{a, b}[i%2], i / 2}, one)
		}
		p.Give(b)
		p.Give(c)
		assert.Zero(t, p.Taken())
		assert.Empty(t, p.waits)
	})
}

// TestPlacesOfEnded checks that a call that is canceled as it gets a place releases
// it, and that canceled calls leave no state.
func TestPlacesOfEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(2)
		a := PartyOfIP(netip.MustParseAddr("192.0.2.1"))
		require.True(t, p.Take(a))
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		for range 3 {
			ended.Go(func() {
				if p.Acquire(ctx, a) == nil {
					p.Give(a)
				}
			})
		}
		synctest.Wait()
		cancel()
		p.Give(a)
		ended.Wait()
		assert.Zero(t, p.Taken())
		assert.Empty(t, p.waits)
		assert.Empty(t, p.turns)
	})
}
