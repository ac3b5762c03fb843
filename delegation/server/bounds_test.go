package server

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// The bound is the one that the administrator's page tells of.
func TestBoundTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	row := fmt.Sprintf("\n| changes that wait for clients to give something back | %d | | | NFS3ERR_JUKEBOX at once; after %.0f s of waiting", maxWaiting, delegation.Patience.Seconds())
	assert.Contains(t, string(doc), row)
}
