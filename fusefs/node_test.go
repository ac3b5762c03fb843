package fusefs

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// TestNodeSize bounds the size of a node, because every file that the kernel
// knows has a node.
func TestNodeSize(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(416))
}
