package tickets

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOwnCache checks that only a process for its own user uses the cache of its environment,
// and that root's keytab comes after it.
func TestOwnCache(t *testing.T) {
	self, other := User{UID: uint32(os.Geteuid())}, User{UID: uint32(os.Geteuid()) + 1}
	request := func(cfg Config, u User) (caches []string, keytab string) {
		cfg.Keytab = "/k"
		q := (&Helper{cfg: cfg}).newRequest(u, "nfs@server", nil)
		return q.Caches, q.Keytab
	}
	wantKeytab := map[bool]string{true: "/k"}[self.UID == 0]
	caches, keytab := request(Config{Own: true, Cache: "FILE:/mine"}, self)
	assert.Equal(t, []string{"FILE:/mine"}, caches)
	assert.Equal(t, wantKeytab, keytab)
	caches, _ = request(Config{Own: true, Cache: "FILE:/mine"}, other)
	assert.NotContains(t, caches, "FILE:/mine")
	caches, keytab = request(Config{Own: true}, self)
	assert.Contains(t, caches, "", "the default cache")
	assert.Equal(t, wantKeytab, keytab)
	caches, keytab = request(Config{}, User{UID: 0})
	assert.Empty(t, caches, "a mount by root")
	assert.Equal(t, "/k", keytab)
}
