package fusefs

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// TestNodeSize: there is a node for each file that the kernel knows.
func TestNodeSize(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(416))
}
