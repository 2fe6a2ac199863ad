package httpx

import "github.com/outriderhq/outrider/internal/guard"

// Guard decides which addresses may be dialled; the zero value allows public ones.
type Guard = guard.Guard
