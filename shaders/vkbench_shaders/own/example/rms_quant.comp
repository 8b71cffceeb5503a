#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require

// One workgroup norms one row and quantises it, each thread every THREADS-th block of 32 numbers.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 64;

layout(push_constant) uniform Row { uint columns; float eps; };
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Codes { int8_t codes[]; };
layout(binding = 2) writeonly buffer Scales { float scales[]; };

shared float sums[THREADS];

float sum_of_squares(uint row, uint thread)
{
    float sum = 0;
    for (uint i = thread; i < columns; i += THREADS) sum += x[row + i] * x[row + i];
    sums[thread] = sum;
    barrier();
    for (uint rest = THREADS / 2; rest > 0; rest /= 2) {
        if (thread < rest) sums[thread] += sums[thread + rest];
        barrier();
    }
    return sums[0];
}

void quantise(uint first, uint place, float factor)
{
    float largest = 0;
    for (uint i = 0; i < 32; i++) largest = max(largest, abs(x[first + i] * factor));
    float scale = largest / 127;
    scales[place] = scale;
    for (uint i = 0; i < 32; i++)
        codes[first + i] = int8_t(scale > 0 ? round(x[first + i] * factor / scale) : 0);
}

void main()
{
    uint row = gl_WorkGroupID.x * columns, thread = gl_LocalInvocationID.x;
    float factor = 1 / sqrt(sum_of_squares(row, thread) / columns + eps);
    for (uint block = thread; block < columns / 32; block += THREADS)
        quantise(row + block * 32, row / 32 + block, factor);
}
