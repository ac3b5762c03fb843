package krb5

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// TestAuthenticators checks both bounds, and whose authenticator is forgotten.
func TestAuthenticators(t *testing.T) {
	a := newReplayCache(6, 3)
	client := func(name string) gss.Principal { return gss.Principal{Name: []string{name}, Realm: "R"} }
	add := func(name string, n int) bool {
		return a.addUnseen(fmt.Append(nil, name, n), client(name), testTime.Add(time.Duration(n)*time.Second))
	}
	assert.True(t, add("dave", 0))
	for n := range 4 {
		assert.True(t, add("alice", n))
	}
	assert.Len(t, a.seen, 1+3, "her share")
	assert.False(t, add("alice", 3))
	assert.True(t, add("alice", 0), "her oldest was forgotten")
	assert.False(t, add("alice", 2))

	assert.True(t, add("bob", 4))
	assert.True(t, add("bob", 5))
	assert.True(t, add("carol", 6), "in the place of the oldest of the client with the most")
	assert.Len(t, a.seen, 6)
	assert.False(t, add("dave", 0), "his is the oldest of all, but he has one")
	assert.False(t, add("alice", 3))
	assert.False(t, add("bob", 4))
	assert.True(t, add("alice", 2), "hers was forgotten")
	assert.Len(t, a.seen, 6)

	assert.True(t, a.addUnseen([]byte("late"), client("carol"), testTime.Add(2*Skew+time.Hour)))
	assert.Len(t, a.seen, 1, "all others have ended")
	assert.Len(t, a.clients, 1)
	assert.Len(t, a.largest, 1)
	assert.Equal(t, 1, a.order.Len())
}

// TestAuthenticatorsEnd checks that no context waits while very many authenticators are
// removed.
func TestAuthenticatorsEnd(t *testing.T) {
	const many = 10 * maxExpired
	a := newReplayCache(many, many)
	p := gss.Principal{Name: []string{"alice"}, Realm: "R"}
	for n := range many {
		assert.True(t, a.addUnseen(fmt.Append(nil, n), p, testTime))
	}
	assert.True(t, a.addUnseen([]byte("late"), p, testTime.Add(3*Skew)))
	assert.Len(t, a.seen, many+1-maxExpired)
}

// TestAuthenticatorsOfRealms checks that clients of one name in two realms, and
// names whose components could be one, have shares of their own.
func TestAuthenticatorsOfRealms(t *testing.T) {
	a := newReplayCache(10, 1)
	for i, p := range []gss.Principal{
		{Name: []string{"alice"}, Realm: "A"},
		{Name: []string{"alice"}, Realm: "B"},
		{Name: []string{"alice", "x"}, Realm: "A"},
	} {
		assert.True(t, a.addUnseen([]byte{byte(i)}, p, testTime))
	}
	assert.Len(t, a.seen, 3)
}
