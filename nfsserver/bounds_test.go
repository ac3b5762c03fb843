package nfsserver

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoundsTold checks that the bound is that in the administrator's
// documentation.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	assert.Contains(t, string(doc), fmt.Sprintf("\n| clients that `showmount` lists | %d |", maxMounts))
}
