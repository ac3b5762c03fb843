//go:build race

package nfs4state

import (
	"fmt"
	"sync"
	"testing"
)

// TestLockRanks checks that a mutex that is locked out of order is found, and that those of
// another goroutine do not matter.
func TestLockRanks(t *testing.T) {
	locked := func(first, second sync.Locker) (problem any) {
		defer func() { problem = recover() }()
		first.Lock()
		defer first.Unlock()
		second.Lock()
		second.Unlock()
		return nil
	}
	tests := []struct {
		first, second sync.Locker
		allowed       bool
	}{
		{new(checkedMutex[hostFileRank]), new(checkedMutex[stateRank]), true},
		{new(checkedMutex[partRank]), new(checkedMutex[shardRank]), true},
		{new(checkedMutex[sessionRank]), new(checkedMutex[sessionRank]), true},
		{new(checkedMutex[partRank]), new(checkedMutex[stateRank]), false},
		{new(checkedMutex[partRank]), new(checkedMutex[partRank]), false},
		{new(checkedMutex[shardRank]), new(checkedMutex[shardRank]), false},
		{new(checkedMutex[leafRank]), new(checkedMutex[hostFileRank]), false},
	}
	startRankChecks()
	for _, tt := range tests {
		problem := make(chan any)
		go func() { problem <- locked(tt.first, tt.second) }()
		want(t, fmt.Sprintf("%T before %T", tt.first, tt.second), <-problem == nil, tt.allowed)
	}
}
