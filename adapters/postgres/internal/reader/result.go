package reader

// Columns of a result with rows. The two before the position say which read a row
// is for; the others are the row's. A statement may return more behind these.
const (
	FetchRead = iota
	FetchLate
	FetchPosition
	FetchID
	FetchType
	FetchGroup
	FetchAggregateType
	FetchAggregateID
	FetchTenant
	FetchTags
	FetchHeaders
	FetchPayload
	FetchPayloadBytes
	FetchOccurredAt
	FetchCreatedAt
	FetchStored // bytes that are stored of a payload that was left out; see limits
)
